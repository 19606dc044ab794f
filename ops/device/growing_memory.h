// Memory of a host or a device that is used again for each operation.
#pragma once

#include <cstddef>
#include <memory>

#include "core/ports/device_ops.h"
#include "ops/device/copy_engine.h"

namespace ronde {

/// Grows to the largest work seen. On a device works share it that follow one another in a stream.
/// Threads: one at a time.
class GrowingMemory {
 public:
  /// `copies` outlives it.
  explicit GrowingMemory(CopyEngine& copies) : copies_(copies) {}
  /// At least so much, not initialised; what was given before is no longer there. Throws
  /// std::bad_alloc.
  std::byte* at_least(std::size_t bytes);

 private:
  CopyEngine& copies_;
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

/// Grows to the largest work seen: pinned, or plain where there is none. Threads: one.
class HostMemory {
 public:
  /// At least so much, not initialised. Throws std::bad_alloc.
  std::byte* at_least(std::size_t bytes, DeviceOps& device);

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

/// Room for so many bytes, so that what follows is aligned as allocate() of a device aligns.
constexpr std::size_t device_room(std::size_t bytes) noexcept {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace ronde
