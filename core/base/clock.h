// Monotonic time, in one place so that tests and the simulator can speak of the same instants.
#pragma once

#include <chrono>

namespace ronde {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// A deadline that never passes.
inline constexpr TimePoint kForever = TimePoint::max();

inline TimePoint now() noexcept { return std::chrono::steady_clock::now(); }

}  // namespace ronde
