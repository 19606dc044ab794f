// The driving right: who holds it, how a waiter spins, sleeps and hands it on, and the background
// thread that looks after frames while nobody waits.
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/base/thread_name.h"
#include "core/engine/engine.h"
#include "core/engine/inside.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ronde {
namespace {

/// How often a waiting caller looks whether it has been interrupted.
constexpr auto kInterruptSlice = std::chrono::milliseconds(50);
/// A peer that is not polling is woken when it has not answered for so long.
constexpr auto kKickAfter = std::chrono::microseconds(8);

/// How long the background thread lets submissions gather before it takes them on: who submits many
/// at once, or waits at once, would otherwise lose its core to a thread that does less well.
constexpr auto kGather = std::chrono::microseconds(50);

void pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

Status Engine::wait_until(const Predicate& done, const WaitOptions& options) {
  const Inside inside(callers_inside_);
  const std::uint64_t interrupts = interrupts_before(options);
  Status status;
  if (interrupts_.load(std::memory_order_acquire) != interrupts && !done()) {
    status = interruption(options, interrupts);
  }
  bool drove = true;
  while (status.ok() && !done()) {
    const TimePoint until = std::min(options.deadline, now() + kInterruptSlice);
    drove = role_.try_take();
    if (drove) {
      drive_for(done, options, interrupts, until);
      release_role();
    } else {
      role_.wait_for_driver(done, until);
    }
    if (done()) break;
    status = interruption(options, interrupts);
    if (status.ok() && now() >= options.deadline) {
      status = {Code::kTimeout, "the wait's deadline has passed"};
    }
  }
  if (!drove) role_.pass_on();
  return status;
}

/// The interrupts that a wait which begins now does not heed.
std::uint64_t Engine::interrupts_before(const WaitOptions& options) const {
  const auto& past = options.heeds_earlier_interrupts ? interrupts_told_ : interrupts_;
  return past.load(std::memory_order_acquire);
}

Status Engine::interruption(const WaitOptions& options, std::uint64_t interrupts) {
  if (const auto all = interrupts_.load(std::memory_order_acquire); all != interrupts) {
    if (options.heeds_earlier_interrupts) interrupts_told_.store(all, std::memory_order_release);
    return {Code::kInterrupted, "the wait was interrupted"};
  }
  return options.interrupt ? options.interrupt() : Status();
}

/// Drives for one caller. Data that it moves itself cannot be left half moved: where a peer keeps
/// it from finishing until the caller is interrupted or its deadline passes, the job is given up.
void Engine::drive_for(const Predicate& done, const WaitOptions& options, std::uint64_t interrupts,
                       TimePoint until) {
  TimePoint next = now() + kInterruptSlice;
  const WaitCheck check(*options_.abort, [&] {
    if (now() < next) return;
    next = now() + kInterruptSlice;
    const bool late = now() >= options.deadline;
    if (!late && interruption(options, interrupts).ok()) return;
    const int rank = channel_.topology().rank;
    fail(Status(late ? Code::kTimeout : Code::kInterrupted,
                fmt::format("rank {} {} while data moved", rank,
                            late ? "came to the end of its wait" : "was interrupted"))
             .about({.rank = rank, .host = {}, .pid = 0}));
  });
  // A caller with a near deadline must be able to leave the work behind.
  may_run_here_ = options.deadline - now() >= options_.far_deadline;
  drive(done, until, WhenIdle::kSleep);
  may_run_here_ = false;  // what is agreed while the role is handed on: nobody checks any more
}

void Engine::help(const Operation& operation, TimePoint until) {
  if (!role_.try_take()) {
    role_.wake_sleeper();  // who drives may have looked for tasks for the last time
    return;
  }
  may_run_here_ = true;
  drive([&] { return operation.done(); }, until, WhenIdle::kLeave);
  may_run_here_ = false;
  inline_driving_.learn(operation.done());
  release_role();
}

bool Engine::nothing_outstanding() const {
  if (!intake_.empty()) return false;
  MutexLock lock(queues_mutex_);
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const auto& entry) { return entry.second->outstanding() == 0; });
}

void Engine::release_role() {
  channel_.prepare_wait(Sleeper::kBackground);
  do {  // what came before peers knew whom to wake
  } while (step());
  channel_.kick();
  look_for_deadlines();  // what ended since the last step has none
  role_.release(next_deadline_ < background_deadline_);
}

void Engine::drive(const Predicate& done, TimePoint until, WhenIdle when_idle) {
  TimePoint idle_since = now();
  bool kicked = false;
  yields_.begin(idle_since);
  while (!done()) {
    if (step()) {
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
    if (rests(time - idle_since)) continue;
    if (when_idle == WhenIdle::kLeave) return;
    sleep_as_caller(done, until);
    idle_since = now() - options_.spin;  // asleep once, it sleeps again unless something comes
  }
}

bool Engine::rests(Duration idle) {
  if (executing()) return false;
  if (options_.spin.count() == 0) return yields_.yield();
  if (idle >= options_.spin) return false;
  pause();
  return true;
}

bool Engine::executing() const {
  return std::any_of(driven_queues_.begin(), driven_queues_.end(),
                     [](const QueuePtr& queue) { return queue->executing(); });
}

void Engine::sleep_as_caller(const Predicate& done, TimePoint until) {
  channel_.kick();
  const std::uint32_t ticket = channel_.prepare_wait(Sleeper::kCaller);
  if (!role_.may_sleep(Sleeper::kCaller) || step() || done()) return;
  channel_.wait(Sleeper::kCaller, ticket, std::min(until, next_deadline_));
}

void Engine::background_main() {
  name_this_thread("ronde-engine");
  while (role_.take_in_background()) background_turn();
}

void Engine::background_turn() {
  may_run_here_ = true;  // nobody waits in this thread
  while (step()) {
  }
  const std::uint32_t ticket = channel_.prepare_wait(Sleeper::kBackground);
  const bool sleep = role_.may_sleep(Sleeper::kBackground) && !step();
  const TimePoint deadline = next_deadline_;
  background_deadline_ = deadline;
  channel_.kick();
  role_.release_in_background();
  if (!sleep) return;
  channel_.wait(Sleeper::kBackground, ticket, deadline);
  gather();
}

void Engine::gather() {
  const std::size_t waiting = role_.tasks();
  if (waiting == 0 || !batching_.wanted(waiting)) return;
  std::this_thread::sleep_for(kGather);
  batching_.learn(role_.tasks());
}

void Engine::interrupt() noexcept {
  interrupts_.fetch_add(1, std::memory_order_acq_rel);
  channel_.wake(Sleeper::kCaller);
}

}  // namespace ronde
