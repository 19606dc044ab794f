// The order in which the sets of one process launch their work in device memory. Sets that share
// devices and launch in different orders can wait for each other for ever. So all launches of a job
// have one order, that of the global set's batches: see launch_coordinator.h.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>

#include "core/base/mutex.h"
#include "core/ports/executor.h"

namespace ronde {

/// The order of one process. Outlives its turns. Threads: any.
class LaunchOrder {
 public:
  /// The turn of one bundle; it is over when it ends.
  class Turn final : public LaunchTurn {
   public:
    explicit Turn(LaunchOrder& order) noexcept : order_(order) {}
    ~Turn() override { order_.end(*this); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Result<bool> wait(const AbortToken& abort) override { return order_.wait(*this, abort); }

   private:
    friend class LaunchOrder;
    LaunchOrder& order_;
    std::uint64_t place_ = 0;  // guarded by order_.mutex_; 0: none yet
    bool refused_ = false;     // likewise
  };
  using TurnPtr = std::shared_ptr<Turn>;

  /// Places a turn behind all that were placed.
  void place(Turn& turn) RONDE_EXCLUDES(mutex_);
  /// Ends its wait: it will never have a place.
  void refuse(Turn& turn) RONDE_EXCLUDES(mutex_);

 private:
  void end(const Turn& turn) RONDE_EXCLUDES(mutex_);
  Result<bool> wait(const Turn& turn, const AbortToken& abort) RONDE_EXCLUDES(mutex_);

  [[nodiscard]] bool has_come(const Turn& turn) const RONDE_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::uint64_t placed_ RONDE_GUARDED_BY(mutex_) = 0;
  std::set<std::uint64_t> under_way_ RONDE_GUARDED_BY(mutex_);
};

/// Matches the bundles of one set with their places in the order; either may come first.
/// Threads: one.
class QueueTurns {
 public:
  explicit QueueTurns(LaunchOrder& order) noexcept : order_(order) {}
  /// The turn of the next bundle.
  LaunchOrder::TurnPtr take();
  /// The next bundle, here or still to come, has its place now.
  void place_next();
  /// Bundles without a place by now never get one.
  void close();

 private:
  LaunchOrder& order_;
  std::deque<LaunchOrder::TurnPtr> early_;  // placed; their bundles are still to come
  std::deque<std::weak_ptr<LaunchOrder::Turn>> unplaced_;  // of bundles that are here
  bool closed_ = false;
};

}  // namespace ronde
