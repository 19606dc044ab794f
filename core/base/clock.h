// Monotonic time, in one place so that tests and the simulator can speak of the same instants.
#pragma once

#include <chrono>
#include <cstdint>

namespace ronde {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// A deadline that never passes.
inline constexpr TimePoint kForever = TimePoint::max();

inline TimePoint now() noexcept { return std::chrono::steady_clock::now(); }

inline std::int64_t to_ns(Duration duration) noexcept {
  return std::chrono::nanoseconds(duration).count();
}
inline std::int64_t to_ns(TimePoint when) noexcept { return to_ns(when.time_since_epoch()); }

}  // namespace ronde
