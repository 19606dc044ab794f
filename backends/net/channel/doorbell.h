// Wakes a process that has something to poll, and lets it sleep until then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/base/clock.h"
#include "core/base/os/futex.h"
#include "core/ports/control_channel.h"

namespace ronde::net {

/// The words of one process's doorbell, in memory that its peers share. Zeros are a good start.
///
/// No wake-up is lost. A peer publishes, then reads `attention`. The owner stores `attention`, then
/// looks once more for published data. All are sequentially consistent, without a fence, as
/// ThreadSanitizer sees none. At least one sees the other.
struct alignas(64) DoorbellWords {
  FutexWord attention;                  ///< 0: the owner polls; else 1 + the Sleeper to wake.
  std::array<SharedWakeWord, 2> words;  ///< By Sleeper.
};

/// Acts on a DoorbellWords. Threads: any, but for mark_polling and prepare (the polling thread).
class Doorbell {
 public:
  explicit Doorbell(DoorbellWords& words) noexcept : words_(words) {}

  /// Marks the owner as polling, so that peers need not wake it. The first call after prepare()
  /// marks nothing: it is the owner's last look before it sleeps.
  void mark_polling() noexcept {
    if (prepared_) {
      prepared_ = false;
    } else if (words_.attention.load(std::memory_order_relaxed) != 0) {
      words_.attention.store(0, std::memory_order_relaxed);
    }
  }

  /// Names the thread to be woken from now on; returns the ticket for wait().
  std::uint32_t prepare(Sleeper who) noexcept {
    prepared_ = true;
    const std::uint32_t ticket = word(who).ticket();
    words_.attention.store(1 + static_cast<std::uint32_t>(who), std::memory_order_seq_cst);
    return ticket;
  }

  /// Sleeps until a wake-up since the ticket was taken, or the deadline.
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept {
    word(who).wait(ticket, deadline);
  }

  /// Wakes `who`, or makes its next wait() with an older ticket return.
  void wake(Sleeper who) noexcept { word(who).wake(); }

  /// Wakes the thread that the owner named, once; nothing while it polls. Peers call it after they
  /// have published something.
  void ring() noexcept {
    std::uint32_t named = words_.attention.load(std::memory_order_seq_cst);
    if (named == 0 || named > 2) return;
    // The peer that clears the word wakes the sleeper; the others need no system call.
    if (words_.attention.compare_exchange_strong(named, 0, std::memory_order_seq_cst)) {
      wake(static_cast<Sleeper>(named - 1));
    }
  }

 private:
  [[nodiscard]] SharedWakeWord& word(Sleeper who) const noexcept {
    return words_.words[static_cast<std::size_t>(who)];
  }

  DoorbellWords& words_;
  bool prepared_ = false;  // polling thread only
};

}  // namespace ronde::net
