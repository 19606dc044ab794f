#include "core/base/os/wake_word.h"

namespace ronde {

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
