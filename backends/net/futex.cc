#include "backends/net/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace ronde::net {

void futex_wait(FutexWord& word, std::uint32_t expected, TimePoint deadline) noexcept {
  timespec when{};
  if (deadline != kForever) {
    const auto since = deadline.time_since_epoch();  // steady_clock is CLOCK_MONOTONIC here
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    when.tv_sec = static_cast<time_t>(seconds.count());
    when.tv_nsec = static_cast<long>((since - seconds).count());
  }
  const int saved = errno;
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_BITSET, expected,
            deadline == kForever ? nullptr : &when, nullptr, FUTEX_BITSET_MATCH_ANY);
  errno = saved;
}

void futex_wake_all(FutexWord& word) noexcept {
  const int saved = errno;
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
  errno = saved;
}

}  // namespace ronde::net
