// A deadline or an interrupt ends a wait before its operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde {

/// Called now and then while a caller waits. Its error ends the wait; the operation goes on.
/// Called in the waiting thread at least every 50 ms.
using InterruptCheck = std::function<Status()>;

/// How long to wait, and what may end the wait early.
struct WaitOptions {
  TimePoint deadline = kForever;  ///< Passing it gives kTimeout; the operation goes on.
  InterruptCheck interrupt;
  /// An interrupt() that came while no caller waited ends the wait too.
  bool heeds_earlier_interrupts = true;
};

/// Counts interrupts, so that each one ends the current waits, or else the next wait.
/// Threads: any.
class Interrupts {
 public:
  /// Interrupts the waits. Safe in signal handlers.
  void raise() noexcept { raised_.fetch_add(1, std::memory_order_acq_rel); }
  /// The interrupts that a wait which begins now ignores.
  [[nodiscard]] std::uint64_t ignored(const WaitOptions& options) const noexcept {
    const auto& past = options.heeds_earlier_interrupts ? reported_ : raised_;
    return past.load(std::memory_order_acquire);
  }
  /// True if interrupts came that the wait does not ignore.
  [[nodiscard]] bool any_beyond(std::uint64_t ignored) const noexcept {
    return raised_.load(std::memory_order_acquire) != ignored;
  }
  /// The error that ends a wait now: by an interrupt, or by its check; ok where none does.
  Status check(const WaitOptions& options, std::uint64_t ignored) {
    if (const auto raised = raised_.load(std::memory_order_acquire); raised != ignored) {
      if (options.heeds_earlier_interrupts) reported_.store(raised, std::memory_order_release);
      return {Code::kInterrupted, "the wait was interrupted"};
    }
    return options.interrupt ? options.interrupt() : Status();
  }

 private:
  std::atomic<std::uint64_t> raised_{0};
  std::atomic<std::uint64_t> reported_{0};  // so many have ended a wait
};

}  // namespace ronde
