// Memory of a device that is used again and again.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "ops/flat_mover.h"

namespace ronde {

/// Grows to the largest work seen; works share it that follow one another in a stream. Threads:
/// one.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::shared_ptr<DeviceOps> device) : mover_(std::move(device), nullptr) {}
  /// At least so much, not initialised, in pinned host memory where the device has no room. What
  /// was given before is no longer there. Throws std::bad_alloc.
  std::byte* at_least(std::size_t bytes);

 private:
  DeviceMover mover_;
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

/// Room for so many bytes before what begins at the device's alignment.
constexpr std::size_t device_room(std::size_t bytes) noexcept {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace ronde
