// The right to drive the engine. One thread of the process holds it at a time: a caller that waits
// for its operation, or else the background thread. A thread hop costs more than a small operation,
// so a waiting caller does the work itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/ports/control_channel.h"

namespace ronde {

/// Decides which thread drives the engine next.
///
/// Its mutex also guards the waiting tasks (see TaskQueue). A submission then sees in one step
/// which thread sleeps, and costs one lock and at most one wake-up.
/// Threads: any, unless a member says otherwise.
class DrivingRole {
 public:
  /// Called with mutex() held, so it must not take it.
  using Predicate = std::function<bool()>;

  /// `channel` outlives the role.
  explicit DrivingRole(ControlChannel& channel) noexcept : channel_(channel) {}
  DrivingRole(const DrivingRole&) = delete;
  DrivingRole& operator=(const DrivingRole&) = delete;

  /// Takes the role for a caller, unless another thread has it.
  [[nodiscard]] bool try_take() RONDE_EXCLUDES(mutex_);
  /// Gives the role up and wakes the thread that must take it next. The caller has named
  /// Sleeper::kBackground to the channel. `deadline_moved`: the background thread sleeps past the
  /// next deadline, so it must wake. Threads: the driving caller.
  void release(bool deadline_moved) RONDE_EXCLUDES(mutex_);
  /// Blocks while another thread drives and `done` is false, at most until `until`.
  void wait_for_driver(const Predicate& done, TimePoint until) RONDE_EXCLUDES(mutex_);
  /// A caller that waited for the driver ends its wait. It may be the one that release() woke, so
  /// another thread must be woken in its place.
  void pass_on() RONDE_EXCLUDES(mutex_);

  /// Blocks until the background thread has the role. False once stop() was called.
  [[nodiscard]] bool take_in_background() RONDE_EXCLUDES(mutex_);
  /// Gives the role up before the background thread sleeps.
  void release_in_background() RONDE_EXCLUDES(mutex_);
  /// Ends the background thread's wait for the role, or its sleep.
  void stop() RONDE_EXCLUDES(mutex_);

  /// Names the driving thread as the one that a task must wake. False where it must not sleep, as
  /// tasks wait. Threads: the driving thread.
  [[nodiscard]] bool may_sleep(Sleeper who) RONDE_EXCLUDES(mutex_);
  /// Has the driving thread take a step, although there is no task.
  void request_step() RONDE_EXCLUDES(mutex_);
  /// Wakes the thread that sleeps until there are tasks, if any.
  void wake_sleeper() RONDE_EXCLUDES(mutex_);
  /// Wakes callers that wait: their predicates may have become true.
  void notify_callers() RONDE_EXCLUDES(mutex_);

  /// Guards the waiting tasks.
  Mutex& mutex() noexcept RONDE_RETURN_CAPABILITY(mutex_) { return mutex_; }
  /// Counts a task that waits now. Returns whom to wake for it, after mutex() is released.
  /// `caller_waits`: its caller will wait at once, so the background thread may sleep on.
  [[nodiscard]] std::optional<Sleeper> add_task(bool caller_waits) RONDE_REQUIRES(mutex_);
  /// The driving thread has taken all tasks.
  void take_tasks() RONDE_REQUIRES(mutex_) { tasks_.store(0, std::memory_order_relaxed); }
  /// How many tasks wait. Exact with mutex() held.
  [[nodiscard]] std::size_t tasks() const noexcept {
    return tasks_.load(std::memory_order_relaxed);
  }
  /// Wakes what add_task() returned.
  void wake(std::optional<Sleeper> who) noexcept {
    if (who) channel_.wake(*who);
  }

 private:
  void wake_next() RONDE_REQUIRES(mutex_);
  void wake_blocked_callers() RONDE_REQUIRES(mutex_);

  ControlChannel& channel_;
  std::atomic<std::size_t> tasks_{0};  // written with mutex_ held

  Mutex mutex_;
  CondVar caller_wakes_;
  CondVar background_wakes_;
  bool driven_ RONDE_GUARDED_BY(mutex_) = false;
  std::optional<Sleeper> sleeper_ RONDE_GUARDED_BY(mutex_);  // a task must wake it
  int blocked_callers_ RONDE_GUARDED_BY(mutex_) = 0;
  bool background_blocked_ RONDE_GUARDED_BY(mutex_) = false;
  bool deadline_moved_ RONDE_GUARDED_BY(mutex_) = false;
  bool stop_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde
