#include "bindings/runtime/diagnosis/bell.h"

namespace ronde::diagnosis {

void Bell::ring(Reason reason) noexcept {
  reasons_.fetch_or(static_cast<std::uint8_t>(reason), std::memory_order_release);
  wake();
}

std::uint8_t Bell::take() noexcept {
  clear_event(fd_.get());
  return reasons_.exchange(0, std::memory_order_acquire);
}

}  // namespace ronde::diagnosis
