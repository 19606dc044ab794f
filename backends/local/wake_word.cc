// The futex system calls behind WakeWord.
#include "backends/local/wake_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace ronde {
namespace {

timespec to_timespec(TimePoint time) noexcept {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  return {.tv_sec = seconds.count(), .tv_nsec = rest.count()};
}

}  // namespace

void WakeWord::wake() noexcept {
  word_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  const int saved = errno;  // this may be a signal handler
  syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  errno = saved;
}

void WakeWord::wait(std::uint32_t ticket, TimePoint deadline) noexcept {
  const timespec until = to_timespec(deadline);
  const timespec* timeout = deadline == kForever ? nullptr : &until;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // The bitset form takes an absolute time on the monotonic clock, which steady_clock is.
  syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET_PRIVATE, ticket, timeout, nullptr,
          FUTEX_BITSET_MATCH_ANY);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  (void)word_.load(std::memory_order_acquire);  // what the waker wrote before is seen after this
}

}  // namespace ronde
