#include "ops/device/growing_memory.h"

#include <utility>

#include "core/base/log.h"

namespace ronde {

std::byte* GrowingMemory::at_least(std::size_t bytes) {
  if (bytes <= bytes_) return memory_.get();
  memory_.reset();
  bytes_ = 0;
  memory_ = copies_.allocate(bytes);
  bytes_ = bytes;
  return memory_.get();
}

std::byte* HostMemory::at_least(std::size_t bytes, DeviceOps& device) {
  if (bytes <= bytes_) return memory_.get();
  memory_.reset();
  bytes_ = 0;
  auto pinned = device.allocate(MemoryKind::kPinned, bytes);
  if (pinned.ok()) {
    memory_ = std::move(pinned).value();
  } else {
    log(LogLevel::kWarning, "{}; plain memory is used instead, which is slower",
        pinned.status().message());
    memory_ = HostCopyEngine(nullptr).allocate(bytes);
  }
  bytes_ = bytes;
  return memory_.get();
}

}  // namespace ronde
