// Host memory for what is staged between a device and the host.
#pragma once

#include <cstddef>
#include <memory>

#include "core/ports/device_ops.h"

namespace ronde {

/// Grows to the largest work seen: pinned, or plain where there is none. Threads: one.
class HostMemory {
 public:
  /// At least so much, not initialised. Throws std::bad_alloc.
  std::byte* at_least(std::size_t bytes, DeviceOps& device);

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace ronde
