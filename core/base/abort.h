// Ways to end a wait early. Every wait of every backend takes a token: once aborted, waits return
// within milliseconds.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace ronde {

/// Holds the reason why a group of ranks is broken; ok at first. The first reason stays.
/// Threads: all members may be called from any thread.
class AbortToken {
 public:
  AbortToken() = default;
  AbortToken(const AbortToken&) = delete;
  AbortToken& operator=(const AbortToken&) = delete;

  /// One relaxed load: cheap enough for a spin loop.
  [[nodiscard]] bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }

  /// As aborted(), for waits that sleep: they call it at least every 50 ms. Runs this thread's
  /// WaitCheck first, which may abort.
  [[nodiscard]] bool poll() const;

  /// Ok, or the reason given to abort().
  [[nodiscard]] Status status() const RONDE_EXCLUDES(mutex_);

  /// Declares the group broken and calls every listener once. Later calls change nothing.
  void abort(const Status& reason) RONDE_EXCLUDES(mutex_);

  /// Calls `listener` on abort (at once where that has happened), so that a wait which sleeps in
  /// the kernel can be woken. Listeners must be quick and must not call this token's
  /// listen or unlisten. Returns the id for unlisten().
  int listen(std::function<void()> listener) const RONDE_EXCLUDES(mutex_);

  /// Removes a listener; once this returns it is not running and will not be called.
  void unlisten(int id) const RONDE_EXCLUDES(mutex_);

 private:
  friend class WaitCheck;
  std::atomic<bool> aborted_{false};
  mutable std::atomic<std::thread::id> checking_thread_{};
  mutable const std::function<void()>* check_ = nullptr;  // for checking_thread_ alone
  mutable Mutex mutex_;
  Status reason_ RONDE_GUARDED_BY(mutex_);
  mutable std::map<int, std::function<void()>> listeners_ RONDE_GUARDED_BY(mutex_);
  mutable int next_id_ RONDE_GUARDED_BY(mutex_) = 0;
};

/// Calls `check` from poll() while it lives, in the thread that made it. A caller that blocks
/// inside a data plane can then still be interrupted. One at a time for a token.
class WaitCheck {
 public:
  WaitCheck(const AbortToken& token, std::function<void()> check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

 private:
  const AbortToken& token_;
  const std::function<void()> check_;
};

/// Tells waits in system calls that a request from outside ends them. Without a check they run to
/// their deadline. Threads: those of `check`.
struct CancelSource {
  int fd = -1;  ///< A wait that sleeps is woken when it becomes readable; -1: none.
  /// Reads what made `fd` readable. An error ends the wait, and is what the wait returns. Called in
  /// the waiting thread, again and again. Blocks: never.
  std::function<Status()> check;

  [[nodiscard]] Status status() const { return check ? check() : Status(); }
};

}  // namespace ronde
