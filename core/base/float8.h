// Scalar conversions of the two 8-bit floating types, round to nearest even. Source: OCP 8-bit
// Floating Point Specification (OFP8), as PyTorch and NCCL have them.
#pragma once

#include <bit>
#include <cstdint>

#include "core/base/half.h"

namespace ronde {

/// E4M3 bits ("fn": no infinity, largest 448) to float; exact, subnormals included.
constexpr float float8_e4m3_to_float(std::uint8_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
  const std::uint32_t rest = bits & 0x7fU;
  if (rest == 0x7fU) return std::bit_cast<float>(sign | 0x7fc00000U);
  const float magnitude =
      std::bit_cast<float>(rest << 20) * std::bit_cast<float>(0x7b800000U);  // 2^120
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// float to E4M3 bits, nearest even; what rounds to more than 448 gives NaN, as infinity does.
constexpr std::uint8_t float_to_float8_e4m3(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const std::uint32_t rest = bits & 0x7fffffffU;
  if (rest > 0x43e80000U) return static_cast<std::uint8_t>(sign | 0x7fU);  // over 464
  if (rest < 0x3c800000U) {  // subnormal here: let the float adder round at 2^-9
    const float shifted = std::bit_cast<float>(rest) + 16384.0F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000U));
  }
  const std::uint32_t rounded = rest + 0x7ffffU + ((rest >> 20) & 1U) - 0x3c000000U;
  return static_cast<std::uint8_t>(sign | (rounded >> 20));
}

/// E5M2 bits to float: the upper half of a float16; exact.
constexpr float float8_e5m2_to_float(std::uint8_t bits) noexcept {
  return float16_to_float(static_cast<std::uint16_t>(bits << 8));
}

/// float to E5M2 bits, nearest even; overflow gives infinity, NaN stays NaN.
constexpr std::uint8_t float_to_float8_e5m2(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const std::uint32_t rest = bits & 0x7fffffffU;
  if (rest > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);
  if (rest >= 0x47700000U) return static_cast<std::uint8_t>(sign | 0x7cU);  // from 61440 on
  if (rest < 0x38800000U) {  // subnormal here: let the float adder round at 2^-16
    const float shifted = std::bit_cast<float>(rest) + 128.0F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x43000000U));
  }
  const std::uint32_t rounded = rest + 0xfffffU + ((rest >> 21) & 1U) - 0x38000000U;
  return static_cast<std::uint8_t>(sign | (rounded >> 21));
}

}  // namespace ronde
