// A tensor's shape and device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ronde {

enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1 };

/// A device of this host; `index` is the CUDA ordinal and 0 for the CPU.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// Extents in elements, outermost first. No extents mean a single element.
using Shape = std::vector<std::int64_t>;

/// Number of elements: 1 for no dimensions, 0 where any extent is 0.
inline std::int64_t element_count(const Shape& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// "[2, 3]".
inline std::string to_string(const Shape& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + text + "]";
}

}  // namespace ronde
