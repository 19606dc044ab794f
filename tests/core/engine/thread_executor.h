// A fake for the executor of ops/: ranks are threads that share memory and sum float32
// tensors.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/ports/executor.h"

namespace ronde::test {

/// State that the executors of one set share. The n-th bundles of all ranks match.
class MeetingPlace {
 public:
  explicit MeetingPlace(int size) : size_(size) {}

  /// Adds this rank's values to round `round` and returns everyone's sum once all have come.
  /// Errors: the abort's status; kMismatch where lengths differ (ranks ran other bundles).
  Result<std::vector<float>> sum(std::size_t round, const std::vector<float>& mine,
                                 const AbortToken& abort) RONDE_EXCLUDES(mutex_);

 private:
  struct Round {
    std::vector<float> total;
    int arrived = 0;
  };
  const int size_;
  Mutex mutex_;
  CondVar arrived_;
  std::map<std::size_t, Round> rounds_ RONDE_GUARDED_BY(mutex_);
};

/// Executes allreduce of float32 (sum), and hands out results that came with the agreement.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(std::shared_ptr<MeetingPlace> place) : place_(std::move(place)) {}

  Status execute(const Bundle& bundle, const AbortToken& abort) override;

 private:
  const std::shared_ptr<MeetingPlace> place_;
  std::size_t round_ = 0;
};

}  // namespace ronde::test
