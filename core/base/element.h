// The elements of each type as they lie in memory, and casts between them, as
// core/ports/reduce_kernels.h defines them: for kernels of devices, and what the CPU's do rarely.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/dtype.h"
#include "core/base/small_float.h"

namespace ronde::element {

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct E4m3 {
  std::uint8_t bits;
};
struct E5m2 {
  std::uint8_t bits;
};
struct Truth {
  std::uint8_t value;
};

/// Calls `visit.template operator()<T>()` for the elements of a type.
template <typename Visit>
void with_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kUint8:
      return visit.template operator()<std::uint8_t>();
    case DType::kInt8:
      return visit.template operator()<std::int8_t>();
    case DType::kInt16:
      return visit.template operator()<std::int16_t>();
    case DType::kInt32:
      return visit.template operator()<std::int32_t>();
    case DType::kInt64:
      return visit.template operator()<std::int64_t>();
    case DType::kUint16:
      return visit.template operator()<std::uint16_t>();
    case DType::kUint32:
      return visit.template operator()<std::uint32_t>();
    case DType::kUint64:
      return visit.template operator()<std::uint64_t>();
    case DType::kFloat16:
      return visit.template operator()<Half>();
    case DType::kBfloat16:
      return visit.template operator()<Brain>();
    case DType::kFloat8E4m3:
      return visit.template operator()<E4m3>();
    case DType::kFloat8E5m2:
      return visit.template operator()<E5m2>();
    case DType::kFloat32:
      return visit.template operator()<float>();
    case DType::kFloat64:
      return visit.template operator()<double>();
    case DType::kBool:
      return visit.template operator()<Truth>();
  }
}

/// An element in the type to compute in: float for 8- and 16-bit floating types, else its own.
template <typename T>
constexpr T load(T value) noexcept {
  return value;
}
constexpr float load(Half value) noexcept { return float16_to_float(value.bits); }
constexpr float load(Brain value) noexcept { return bfloat16_to_float(value.bits); }
constexpr float load(E4m3 value) noexcept { return float8_e4m3_to_float(value.bits); }
constexpr float load(E5m2 value) noexcept { return float8_e5m2_to_float(value.bits); }
constexpr std::uint8_t load(Truth value) noexcept { return value.value != 0 ? 1 : 0; }

/// `value` truncated towards zero; what does not fit becomes the nearest T that does, NaN becomes
/// 0.
template <typename T>
constexpr T truncate_to(double value) noexcept {
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::min());
  constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
  if (value != value) return 0;
  if (value <= kLeast) return std::numeric_limits<T>::min();
  if (value >= kMost) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

/// An integer in fp64, rounded to odd where that cannot hold it.
constexpr double to_odd_double(std::uint64_t value) noexcept {
  constexpr std::uint64_t kDropped = 2047;  // leaves 53 bits
  if (value >> 53 == 0) return static_cast<double>(value);
  const std::uint64_t sticky = (value & kDropped) != 0 ? kDropped + 1 : 0;
  return static_cast<double>((value & ~kDropped) | sticky);
}
constexpr double to_odd_double(std::int64_t value) noexcept {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (value >= -kExact && value <= kExact) return static_cast<double>(value);
  constexpr std::int64_t kDropped = 2047;  // leaves 52 bits
  const std::int64_t sticky = (value & kDropped) != 0 ? kDropped + 1 : 0;
  return static_cast<double>((value & ~kDropped) | sticky);
}

/// A computed value in fp32. A cast to 8 or 16 bits then rounds once.
template <typename From>
constexpr float narrowed(From value) noexcept {
  if constexpr (std::is_same_v<From, float>) {
    return value;
  } else if constexpr (std::is_same_v<From, std::uint64_t>) {
    return round_to_odd(to_odd_double(value));
  } else if constexpr (std::is_integral_v<From>) {
    return round_to_odd(to_odd_double(std::int64_t{value}));
  } else {
    return round_to_odd(value);
  }
}

/// An element of type To from a computed value: to integers as truncate_to().
template <typename To, typename From>
constexpr To store(From value) noexcept {
  if constexpr (std::is_same_v<To, Half>) {
    return {float_to_float16(narrowed(value))};
  } else if constexpr (std::is_same_v<To, Brain>) {
    return {float_to_bfloat16(narrowed(value))};
  } else if constexpr (std::is_same_v<To, E4m3>) {
    return {float_to_float8_e4m3(narrowed(value))};
  } else if constexpr (std::is_same_v<To, E5m2>) {
    return {float_to_float8_e5m2(narrowed(value))};
  } else if constexpr (std::is_same_v<To, Truth>) {
    return {static_cast<std::uint8_t>(value != From{} ? 1 : 0)};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return truncate_to<To>(static_cast<double>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace ronde::element
