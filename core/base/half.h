// Scalar conversions of float16 and bfloat16, round to nearest even. Kernels with SIMD live in
// ops/kernels; these are the reference that they are tested against.
#pragma once

#include <bit>
#include <cstdint>

namespace ronde {

/// bfloat16 bits to float; exact.
constexpr float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// float to bfloat16 bits, nearest even; NaN stays a quiet NaN.
constexpr std::uint16_t float_to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// float16 bits to float; exact, subnormals included.
constexpr float float16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  if (rest >= 0x0f800000U) return std::bit_cast<float>(sign | (rest + 0x70000000U));  // inf, nan
  const float magnitude = std::bit_cast<float>(rest) * std::bit_cast<float>(0x77800000U);  // 2^112
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// float to float16 bits, nearest even; overflow gives infinity, NaN stays a quiet NaN.
constexpr std::uint16_t float_to_float16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t rest = bits & 0x7fffffffU;
  if (rest > 0x7f800000U)
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((rest >> 13) & 0x3ffU));
  if (rest >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (rest < 0x38800000U) {  // subnormal in float16: let the float adder round at 2^-24
    const float shifted = std::bit_cast<float>(rest) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = rest + 0xfffU + ((rest >> 13) & 1U) - 0x38000000U;
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

}  // namespace ronde
