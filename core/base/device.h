// Where a tensor's memory lives.
#pragma once

#include <cstdint>

namespace ronde {

enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1 };

/// A device of this host; `index` is the CUDA ordinal and 0 for the CPU.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

}  // namespace ronde
