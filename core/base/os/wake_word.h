// A futex that counts wake-ups: a sleeper takes a ticket, looks for work once more, and sleeps only
// if no wake-up came since.
#pragma once

#include <cstdint>

#include "core/base/clock.h"
#include "core/base/os/futex.h"

namespace ronde {

/// Zeros are its start state, so it may lie in fresh shared memory. Threads: any.
///
/// No wake-up is lost: wake() counts, then reads the number of sleepers; wait() adds itself, then
/// reads the count. All four are sequentially consistent, so at least one sees the other.
template <FutexScope scope>
class BasicWakeWord {
 public:
  /// The argument of wait(). Take it before looking for work.
  [[nodiscard]] std::uint32_t ticket() const noexcept {
    return count_.load(std::memory_order_seq_cst);
  }

  /// Ends every wait whose ticket was taken before this. Also for signal handlers.
  void wake() noexcept;

  /// Sleeps until a wake() after `ticket`, or until `deadline`. May return early.
  void wait(std::uint32_t ticket, TimePoint deadline) noexcept;

  /// Threads in wait(). While it is 0, wake() needs no system call.
  [[nodiscard]] std::uint32_t sleepers() const noexcept {
    return sleepers_.load(std::memory_order_relaxed);
  }

 private:
  FutexWord count_{0};
  FutexWord sleepers_{0};
};

extern template class BasicWakeWord<FutexScope::kProcess>;
extern template class BasicWakeWord<FutexScope::kShared>;

/// For threads of one process.
using WakeWord = BasicWakeWord<FutexScope::kProcess>;
/// For processes that share the memory in which it lies.
using SharedWakeWord = BasicWakeWord<FutexScope::kShared>;

}  // namespace ronde
