// A futex that counts wake-ups: a sleeper takes a ticket, looks around once more, and sleeps only
// if nobody has woken it since.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"

namespace ronde {

/// Threads: any.
class WakeWord {
 public:
  /// What wait() is to be given; take it before looking for work.
  [[nodiscard]] std::uint32_t ticket() const noexcept {
    return word_.load(std::memory_order_acquire);
  }

  /// Ends every wait whose ticket was taken before this. Safe in signal handlers.
  void wake() noexcept;

  /// Sleeps until a wake() after `ticket`, or until `deadline`. May return early.
  void wait(std::uint32_t ticket, TimePoint deadline) noexcept;

 private:
  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace ronde
