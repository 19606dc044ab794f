#include "core/base/os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace ronde {
namespace {

timespec to_timespec(Duration duration) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  return {.tv_sec = static_cast<time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((duration - seconds).count())};
}

void call(const FutexWord& word, int operation, std::uint32_t value,
          const timespec* timeout) noexcept {
  const int saved = errno;
  ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
  errno = saved;
}

int flag_of(FutexScope scope) noexcept {
  return scope == FutexScope::kProcess ? FUTEX_PRIVATE_FLAG : 0;
}

}  // namespace

void futex_wait(const FutexWord& word, std::uint32_t expected, TimePoint deadline,
                FutexScope scope) noexcept {
  // The bitset form takes an absolute time of CLOCK_MONOTONIC, which is steady_clock.
  const timespec until = to_timespec(deadline.time_since_epoch());
  call(word, FUTEX_WAIT_BITSET | flag_of(scope), expected, deadline == kForever ? nullptr : &until);
}

void futex_wait_for(const FutexWord& word, std::uint32_t expected, Duration limit) noexcept {
  const timespec left = to_timespec(limit);
  call(word, FUTEX_WAIT, expected, &left);
}

void futex_wake_all(const FutexWord& word, FutexScope scope) noexcept {
  call(word, FUTEX_WAKE | flag_of(scope), INT_MAX, nullptr);
}

template <FutexScope scope>
void BasicWakeWord<scope>::wake() noexcept {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(count_, scope);
}

template <FutexScope scope>
void BasicWakeWord<scope>::wait(std::uint32_t ticket, TimePoint deadline) noexcept {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (count_.load(std::memory_order_seq_cst) == ticket) futex_wait(count_, ticket, deadline, scope);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  (void)count_.load(std::memory_order_acquire);  // makes visible what the waker wrote before
}

template class BasicWakeWord<FutexScope::kProcess>;
template class BasicWakeWord<FutexScope::kShared>;

}  // namespace ronde
