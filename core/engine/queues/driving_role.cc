#include "core/engine/queues/driving_role.h"

#include <utility>

namespace ronde {

bool DrivingRole::try_take() {
  MutexLock lock(mutex_);
  if (driven_) return false;
  driven_ = true;
  sleeper_.reset();
  return true;
}

void DrivingRole::release(bool deadline_moved) {
  MutexLock lock(mutex_);
  driven_ = false;
  sleeper_ = Sleeper::kBackground;
  deadline_moved_ = deadline_moved;
  wake_next();
}

/// The role is free: wakes the thread that must take it, where one must.
void DrivingRole::wake_next() {
  if (blocked_callers_ > 0) {
    caller_wakes_.notify_all();
  } else if (background_blocked_) {
    background_wakes_.notify_one();
  } else if (tasks() > 0 || deadline_moved_) {
    channel_.wake(Sleeper::kBackground);
  }
}

void DrivingRole::wait_for_driver(const Predicate& done, TimePoint until) {
  MutexLock lock(mutex_);
  ++blocked_callers_;
  while (driven_ && !done()) {
    if (!caller_wakes_.wait_until(mutex_, until)) break;
  }
  --blocked_callers_;
}

void DrivingRole::pass_on() {
  MutexLock lock(mutex_);
  if (!driven_) wake_next();
}

bool DrivingRole::take_in_background() {
  MutexLock lock(mutex_);
  background_blocked_ = true;
  while (driven_ && !stop_) background_wakes_.wait(mutex_);
  background_blocked_ = false;
  if (stop_) return false;
  driven_ = true;
  sleeper_.reset();
  return true;
}

void DrivingRole::release_in_background() {
  MutexLock lock(mutex_);
  driven_ = false;
  wake_blocked_callers();
}

void DrivingRole::stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    background_wakes_.notify_all();
  }
  channel_.wake(Sleeper::kBackground);
}

bool DrivingRole::may_sleep(Sleeper who) {
  MutexLock lock(mutex_);
  if (tasks() > 0 || stop_) return false;
  sleeper_ = who;
  return true;
}

void DrivingRole::request_step() {
  std::optional<Sleeper> sleeper;
  {
    MutexLock lock(mutex_);
    sleeper = add_task(false);
  }
  wake(sleeper);
}

void DrivingRole::wake_sleeper() {
  std::optional<Sleeper> who;
  {
    MutexLock lock(mutex_);
    who = std::exchange(sleeper_, std::nullopt);
  }
  wake(who);
}

void DrivingRole::notify_callers() {
  MutexLock lock(mutex_);
  wake_blocked_callers();
  if (sleeper_ == Sleeper::kCaller) {
    sleeper_.reset();
    channel_.wake(Sleeper::kCaller);
  }
}

void DrivingRole::wake_blocked_callers() {
  if (blocked_callers_ > 0) caller_wakes_.notify_all();
}

std::optional<Sleeper> DrivingRole::add_task(bool caller_waits) {
  tasks_.store(tasks() + 1, std::memory_order_relaxed);
  const bool sleeps_on = caller_waits && sleeper_ != Sleeper::kCaller;
  return sleeps_on ? std::nullopt : std::exchange(sleeper_, std::nullopt);
}

}  // namespace ronde
