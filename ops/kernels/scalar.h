// Scalar arithmetic on single elements that SIMD instruction sets lack, without undefined
// behaviour.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/element.h"

namespace ronde::kernels {

using element::truncate_to;

/// value * factor in fp64, truncated towards zero.
template <typename T>
constexpr T scale_integer(T value, double factor) noexcept {
  return truncate_to<T>(static_cast<double>(value) * factor);
}

/// The whole number whose reciprocal `factor` is, where a division by it rounds better than a
/// multiplication by `factor`; else 0. Powers of two are exact either way.
inline double divisor_of(double factor) noexcept {
  constexpr double kMost = 1 << 20;
  const double divisor = std::nearbyint(1.0 / factor);
  if (!(divisor > 2.0 && divisor < kMost) || 1.0 / divisor != factor) return 0.0;
  const bool power_of_two = std::has_single_bit(static_cast<std::uint32_t>(divisor));
  return power_of_two ? 0.0 : divisor;
}

/// The same for integers, whose factor may have been rounded up so that products never fall short.
inline std::int64_t integer_divisor_of(double factor) noexcept {
  constexpr double kMost = 1 << 20;
  const double divisor = std::nearbyint(1.0 / factor);
  if (!(divisor > 1.0 && divisor < kMost)) return 0;
  const bool near = factor == 1.0 / divisor || factor == std::nextafter(1.0 / divisor, 1.0);
  return near ? static_cast<std::int64_t>(divisor) : 0;
}

/// value / divisor, rounded towards zero; what does not fit becomes the nearest T that does.
template <typename T>
constexpr T divide_integer(std::int64_t value, std::int64_t divisor) noexcept {
  constexpr std::int64_t kLeast{std::numeric_limits<T>::min()};
  constexpr std::int64_t kMost{std::numeric_limits<T>::max()};
  return static_cast<T>(std::clamp(value / divisor, kLeast, kMost));
}

/// The same of a value without a sign: the quotient fits.
template <typename T>
constexpr T divide_integer(std::uint64_t value, std::int64_t divisor) noexcept {
  return static_cast<T>(value / static_cast<std::uint64_t>(divisor));
}

/// a * b modulo 2^bits.
template <typename T>
constexpr T wrapping_product(T a, T b) noexcept {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace ronde::kernels
