// The step between fp64 and a 16-bit type that keeps rounding to one.
#pragma once

#include <bit>
#include <cstdint>

namespace ronde {

/// fp32 with its last bit set wherever it is not exact ("rounded to odd"): rounding that again to a
/// 16-bit type gives what rounding `value` once would.
constexpr float round_to_odd(double value) noexcept {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (value != value || back == value) return nearest;
  const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  const std::uint32_t truncated = std::bit_cast<std::uint32_t>(nearest) - (away ? 1U : 0U);
  return std::bit_cast<float>(truncated | 1U);
}

}  // namespace ronde
