#include "core/base/os/futex.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
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

constexpr int kYields = 100;
/// A scheduler's time slice is longer, the work of a peer on a small operation shorter.
constexpr std::chrono::microseconds kDear{500};
constexpr std::chrono::milliseconds kLeastPenalty{20};
constexpr std::chrono::milliseconds kMostPenalty{1000};

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

void AdaptiveYield::begin(TimePoint time) noexcept { left_ = time < resume_ ? 0 : kYields; }

bool AdaptiveYield::yield() noexcept {
  if (!is_left()) return false;
  --left_;
  const TimePoint start = now();
  sched_yield();
  note(start, now());
  return true;
}

void AdaptiveYield::note(TimePoint left, TimePoint returned) noexcept {
  if (returned - left < kDear) return;
  const bool again = left - resume_ < penalty_;
  penalty_ = again ? std::min<Duration>(2 * penalty_, kMostPenalty) : Duration(kLeastPenalty);
  resume_ = returned + penalty_;
  left_ = 0;
}

}  // namespace ronde
