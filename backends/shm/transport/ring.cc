#include "backends/shm/transport/ring.h"

#include <algorithm>
#include <cstring>

namespace ronde::shm {

std::size_t Ring::push(const std::byte* from, std::size_t bytes) noexcept {
  const std::uint64_t written = control_->written.load(std::memory_order_relaxed);
  const std::uint64_t read = control_->read.load(std::memory_order_acquire);
  const std::size_t size = std::min(bytes, capacity_ - static_cast<std::size_t>(written - read));
  if (size == 0) return 0;
  const std::size_t at = static_cast<std::size_t>(written) & (capacity_ - 1);
  const std::size_t first = std::min(size, capacity_ - at);
  std::memcpy(data_ + at, from, first);
  std::memcpy(data_, from + first, size - first);
  control_->written.store(written + size, std::memory_order_seq_cst);
  return size;
}

std::size_t Ring::pop(std::byte* to, std::size_t bytes) noexcept {
  const std::uint64_t read = control_->read.load(std::memory_order_relaxed);
  const std::uint64_t written = control_->written.load(std::memory_order_acquire);
  const std::size_t size = std::min(bytes, static_cast<std::size_t>(written - read));
  if (size == 0) return 0;
  const std::size_t at = static_cast<std::size_t>(read) & (capacity_ - 1);
  const std::size_t first = std::min(size, capacity_ - at);
  std::memcpy(to, data_ + at, first);
  std::memcpy(to + first, data_, size - first);
  control_->read.store(read + size, std::memory_order_seq_cst);
  return size;
}

}  // namespace ronde::shm
