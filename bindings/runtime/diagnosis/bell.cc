#include "bindings/runtime/diagnosis/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace ronde::diagnosis {

Bell::Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Bell::ring(Reason reason) noexcept {
  reasons_.fetch_or(static_cast<std::uint8_t>(reason), std::memory_order_release);
  wake();
}

void Bell::wake() noexcept {
  const int saved = errno;  // of the code that a signal has interrupted
  const std::uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof(one));
  errno = saved;
}

std::uint8_t Bell::take() noexcept {
  std::uint64_t count = 0;
  (void)!::read(fd_.get(), &count, sizeof(count));
  return reasons_.exchange(0, std::memory_order_acquire);
}

}  // namespace ronde::diagnosis
