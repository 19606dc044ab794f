// The ranks of one measurement: how they start together and agree on what was measured.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "bindings/runtime/groups/raw_group.h"
#include "bindings/runtime/runtime.h"
#include "core/base/status.h"

namespace ronde::bench {

/// All ranks of a job, with a raw group for the bench's own needs. Threads: one at a time.
class Team {
 public:
  /// Joins the job. Collective over its ranks. Errors: as Runtime::create.
  static Result<std::unique_ptr<Team>> join(const Config& config);

  [[nodiscard]] Runtime& runtime() noexcept { return *runtime_; }
  [[nodiscard]] RawGroup& group() noexcept { return *group_; }
  [[nodiscard]] int rank() const noexcept { return group_->rank(); }
  [[nodiscard]] int size() const noexcept { return group_->size(); }

  /// Returns when all ranks have called it.
  Status barrier();
  /// Replaces each value by the largest of all ranks'.
  Status slowest(std::span<double> values);
  /// Ok where all ranks say so, else an error with `what`. The answer is the same on all ranks.
  Status all(bool good, const std::string& what);

 private:
  Team(std::unique_ptr<Runtime> runtime, std::unique_ptr<RawGroup> group);

  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<RawGroup> group_;
};

}  // namespace ronde::bench
