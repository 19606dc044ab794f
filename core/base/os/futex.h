// Waiting: the kernel's futex calls, a word that counts wake-ups, and yields before a wait sleeps.
// Callers avoid the calls while no thread sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"

namespace ronde {

/// A word that threads sleep on.
using FutexWord = std::atomic<std::uint32_t>;
static_assert(FutexWord::is_always_lock_free && sizeof(FutexWord) == 4);

/// The threads that may sleep on a word: those of this process, or of other processes too.
enum class FutexScope : std::uint8_t { kProcess, kShared };

/// Sleeps while `word` holds `expected`, until a wake-up or the deadline. May return early.
/// Keeps errno.
void futex_wait(const FutexWord& word, std::uint32_t expected, TimePoint deadline,
                FutexScope scope = FutexScope::kShared) noexcept;

/// Sleeps as futex_wait() for at most `limit`, on a shared word. Reads no clock.
void futex_wait_for(const FutexWord& word, std::uint32_t expected, Duration limit) noexcept;

/// Wakes all that sleep on `word`. Keeps errno. Threads: any, also signal handlers.
void futex_wake_all(const FutexWord& word, FutexScope scope = FutexScope::kShared) noexcept;

/// Counts wake-ups. A sleeper takes a ticket, looks for work once more, and sleeps only if no
/// wake-up came since. Zeros are its start state, so it may lie in fresh shared memory. Threads:
/// any.
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

/// Wakes threads of one process.
using WakeWord = BasicWakeWord<FutexScope::kProcess>;
/// Wakes processes that share its memory.
using SharedWakeWord = BasicWakeWord<FutexScope::kShared>;

/// Decides for each wait whether to yield before it sleeps in the kernel. Where ranks outnumber
/// cores, a yield to a peer takes about a microsecond, less than a sleep with a wake-up. A yield to
/// another program takes milliseconds. Threads: one at a time.
class AdaptiveYield {
 public:
  /// Starts a wait at `time`.
  void begin(TimePoint time) noexcept;

  /// True if yield() would let others run.
  [[nodiscard]] bool is_left() const noexcept { return left_ > 0; }

  /// Lets other threads run once. False if the wait should sleep now; then it has not yielded.
  bool yield() noexcept;

  /// Takes the times between which yield() gave the core away. Public for tests.
  void note(TimePoint left, TimePoint returned) noexcept;

 private:
  int left_ = 0;        ///< Yields left in this wait.
  Duration penalty_{};  ///< For how long yielding was given up the last time.
  TimePoint resume_{};  ///< Waits that begin earlier do not yield.
};

}  // namespace ronde
