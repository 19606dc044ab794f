#include "core/engine/driving/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/thread_name.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ronde {
namespace {

/// How often a wait checks for interrupts, and for failures of other ranks.
constexpr auto kInterruptSlice = std::chrono::milliseconds(50);
/// A peer that does not poll is woken when it has not answered for so long.
constexpr auto kKickAfter = std::chrono::microseconds(8);
/// How long the background thread lets tasks gather. Otherwise it takes the core from a caller that
/// submits more, or that comes to wait and does the work itself.
constexpr auto kGather = std::chrono::microseconds(50);

void pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// A check for waits that does its work only once in a slice.
template <typename Check>
auto every_slice(Check check) {
  return [check = std::move(check), next = now() + kInterruptSlice]() mutable {
    const TimePoint time = now();
    if (time < next) return;
    next = time + kInterruptSlice;
    check();
  };
}

}  // namespace

Driver::Driver(ControlChannel& channel, DrivingRole& role, Progress& progress,
               Membership& membership, const Options& options)
    : channel_(channel),
      role_(role),
      progress_(progress),
      membership_(membership),
      options_(options),
      background_([this] { background_main(); }) {}

void Driver::stop() {
  if (!background_.joinable()) return;
  role_.stop();
  background_.join();
  while (callers_inside_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  while (progress_.step()) {  // ends what late callers left
  }
}

Status Driver::wait_until(const Predicate& done, const WaitOptions& options) {
  const Inside inside = enter();
  const std::uint64_t ignored = interrupts_.ignored(options);
  Status status;
  if (interrupts_.any_beyond(ignored) && !done()) status = interrupts_.check(options, ignored);
  bool drove = true;
  while (status.ok() && !done()) {
    const TimePoint until = std::min(options.deadline, now() + kInterruptSlice);
    drove = role_.try_take();
    if (drove) {
      drive_for(done, options, ignored, until);
      release_role();
    } else {
      role_.wait_for_driver(done, until);
    }
    if (done()) break;
    status = interrupts_.check(options, ignored);
    if (status.ok() && now() >= options.deadline) {
      status = {Code::kTimeout, "the wait's deadline has passed"};
    }
  }
  if (!drove) role_.pass_on();
  return status;
}

/// Drives for one caller. A collective that it runs itself cannot be left half done. If a peer
/// delays it until the caller is interrupted or its deadline passes, the job fails.
void Driver::drive_for(const Predicate& done, const WaitOptions& options, std::uint64_t ignored,
                       TimePoint until) {
  const WaitCheck check(membership_.abort(), every_slice([&] {
                          progress_.look_for_failure();
                          const bool late = now() >= options.deadline;
                          if (late || !interrupts_.check(options, ignored).ok()) give_up(late);
                        }));
  // A caller with a near deadline must be able to leave the work behind.
  progress_.set_may_run(options.deadline - now() >= options_.far_deadline);
  drive(done, until, WhenIdle::kSleep);
  progress_.set_may_run(false);  // no check runs while the role is released
}

void Driver::give_up(bool late) {
  const int rank = channel_.topology().rank;
  membership_.abort().abort(
      Status(late ? Code::kTimeout : Code::kInterrupted,
             fmt::format("rank {} {} while data moved", rank,
                         late ? "came to the end of its wait" : "was interrupted"))
          .about({.rank = rank, .host = {}, .pid = 0}));
}

void Driver::help(const Operation& operation, TimePoint until) {
  if (!role_.try_take()) {
    role_.wake_sleeper();  // the driver may have looked for tasks for the last time
    return;
  }
  progress_.set_may_run(true);
  {
    const WaitCheck check(membership_.abort(),
                          every_slice([this] { progress_.look_for_failure(); }));
    drive([&] { return operation.done(); }, until, WhenIdle::kLeave);
  }
  progress_.set_may_run(false);
  inline_driving_.learn(operation.done());
  release_role();
}

void Driver::release_role() {
  do {  // takes frames that came before peers knew which thread to wake; a step makes them forget
    channel_.prepare_wait(Sleeper::kBackground);
  } while (progress_.step());
  channel_.kick();
  // Operations that ended since the last step have no deadline any more.
  role_.release(progress_.update_deadline() < background_deadline_);
}

void Driver::drive(const Predicate& done, TimePoint until, WhenIdle when_idle) {
  TimePoint idle_since = now();
  bool kicked = false;
  yields_.begin(idle_since);
  while (!done()) {
    if (progress_.step()) {
      idle_since = now();
      kicked = false;
      yields_.begin(idle_since);
      continue;
    }
    const TimePoint time = now();
    if (time >= until) return;
    if (!kicked && time - idle_since >= kKickAfter) {
      channel_.kick();
      kicked = true;
    }
    if (rest(time - idle_since)) continue;
    if (when_idle == WhenIdle::kLeave) return;
    sleep_as_caller(done, until);
    idle_since = now() - options_.spin;  // after one sleep it spins no more until something comes
  }
}

/// Spins for a moment or lets others run; false where a caller idle for so long should sleep.
bool Driver::rest(Duration idle) {
  if (progress_.executing()) return false;
  if (options_.spin.count() == 0) return yields_.yield();
  if (idle >= options_.spin) return false;
  pause();
  return true;
}

void Driver::sleep_as_caller(const Predicate& done, TimePoint until) {
  channel_.kick();
  const std::uint32_t ticket = channel_.prepare_wait(Sleeper::kCaller);
  if (!role_.may_sleep(Sleeper::kCaller) || progress_.step() || done()) return;
  channel_.wait(Sleeper::kCaller, ticket, std::min(until, progress_.next_deadline()));
}

void Driver::background_main() {
  name_this_thread("ronde-engine");
  while (role_.take_in_background()) background_turn();
}

/// Takes steps until there is nothing to do, gives the role up and sleeps.
void Driver::background_turn() {
  progress_.set_may_run(true);  // no caller waits in this thread
  {
    const WaitCheck check(membership_.abort(),
                          every_slice([this] { progress_.look_for_failure(); }));
    while (progress_.step()) {
    }
  }
  const std::uint32_t ticket = channel_.prepare_wait(Sleeper::kBackground);
  const bool sleep = role_.may_sleep(Sleeper::kBackground) && !progress_.step();
  const TimePoint deadline = progress_.next_deadline();
  background_deadline_ = deadline;
  channel_.kick();
  role_.release_in_background();
  if (!sleep) return;
  channel_.wait(Sleeper::kBackground, ticket, deadline);
  gather_tasks();
}

void Driver::gather_tasks() {
  const std::size_t waiting = role_.tasks();
  if (waiting == 0 || !batching_.wanted(waiting)) return;
  std::this_thread::sleep_for(kGather);
  batching_.learn(role_.tasks());
}

void Driver::interrupt() noexcept {
  interrupts_.raise();
  channel_.wake(Sleeper::kCaller);
}

}  // namespace ronde
