// Scalar conversions of 16-bit and 8-bit floating types, rounded to nearest even. The SIMD kernels
// in ops/kernels are tested against them. Source of the 8-bit types: OCP 8-bit Floating Point
// Specification (OFP8), as PyTorch and NCCL have them.
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

/// fp32 with its last bit set if it is not exact ("rounded to odd"). Rounding that to a 16-bit type
/// gives the same as rounding `value` once.
constexpr float round_to_odd(double value) noexcept {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (value != value || back == value) return nearest;
  const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  const std::uint32_t truncated = std::bit_cast<std::uint32_t>(nearest) - (away ? 1U : 0U);
  return std::bit_cast<float>(truncated | 1U);
}

}  // namespace ronde
