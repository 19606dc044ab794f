// Why operations of this rank ended early: a rank that they needed has died or left.
#pragma once

#include <functional>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace ronde {

/// Keeps the error of the last operation that ended as a rank died or left. Threads: any.
class LeftBehind {
 public:
  /// `on_new`: called once for each such rank in turn; quick. May be empty.
  explicit LeftBehind(std::function<void()> on_new) : on_new_(std::move(on_new)) {}

  /// Notes that an operation has ended so.
  void note(const Status& why) RONDE_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (are_of_one_rank(why_, why)) return;
      why_ = why;
    }
    if (on_new_) on_new_();
  }
  /// The first error of the rank that note() heard of last; ok if there is none.
  [[nodiscard]] Status status() const RONDE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return why_;
  }

 private:
  /// Each operation's error names it, so those of one rank's end differ.
  static bool are_of_one_rank(const Status& a, const Status& b) {
    if (!a.failed_rank() || !b.failed_rank()) return a.message() == b.message();
    return a.failed_rank()->rank == b.failed_rank()->rank;
  }

  const std::function<void()> on_new_;
  mutable Mutex mutex_;
  Status why_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
