#include "backends/net/transport/driver_turn.h"

#include <chrono>

namespace ronde::net {
namespace {

// The thread looks again after this time whether callers still drive. It costs them no wake-up.
constexpr std::chrono::milliseconds kHandOver{10};

}  // namespace

void DriverTurn::note_call() {
  ++calls_;
  if (std::exchange(thread_polls_, false)) notify_event(wake_.get());
}

void DriverTurn::end_wait(bool broken) {
  caller_waits_ = false;
  if (thread_rests_) turn_->notify_all();
  if (broken) notify_event(wake_.get());
}

void DriverTurn::rouse() {
  turn_->notify_all();
  notify_event(wake_.get());
}

void DriverTurn::leave() {
  leaves_ = true;
  rouse();
}

void DriverTurn::stop() {
  stop_ = true;
  rouse();
}

bool DriverTurn::stay_away(Mutex& mutex, bool broken) {
  thread_polls_ = false;
  const bool called = calls_seen_ != calls_;
  calls_seen_ = calls_;
  if (stop_ || leaves_ || broken) return false;
  if (caller_waits_ && !called) {
    thread_rests_ = true;
    turn_->wait(mutex);
    thread_rests_ = false;
    return true;
  }
  if (called) turn_->wait_until(mutex, now() + kHandOver);
  return called;
}

void DriverTurn::end(bool polls) {
  if (leaves_) turn_->notify_all();
  thread_polls_ = polls;
}

}  // namespace ronde::net
