// Arithmetic on one element: scaling and casts as core/ports/reduce_kernels.h defines them. Tests
// run the same code on the host.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/small_float.h"

#if defined(__CUDACC__)
#define RONDE_HOST_DEVICE __host__ __device__
#else
#define RONDE_HOST_DEVICE
#endif

namespace ronde::cuda {

/// 8- and 16-bit floating point and bool as they lie in memory.
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

/// An element in the type to compute in: float for 8- and 16-bit types, else its own.
template <typename T>
RONDE_HOST_DEVICE inline T load(T value) {
  return value;
}
RONDE_HOST_DEVICE inline float load(Half value) { return float16_to_float(value.bits); }
RONDE_HOST_DEVICE inline float load(Brain value) { return bfloat16_to_float(value.bits); }
RONDE_HOST_DEVICE inline float load(E4m3 value) { return float8_e4m3_to_float(value.bits); }
RONDE_HOST_DEVICE inline float load(E5m2 value) { return float8_e5m2_to_float(value.bits); }
RONDE_HOST_DEVICE inline std::uint8_t load(Truth value) { return value.value != 0 ? 1 : 0; }

/// A floating value as an integer: towards zero, saturating; NaN gives 0.
template <typename To, typename Float>
RONDE_HOST_DEVICE inline To to_integer(Float value) {
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<To>::min());
  constexpr auto kMost = static_cast<double>(std::numeric_limits<To>::max());
  const auto wide = static_cast<double>(value);
  if (wide != wide) return 0;
  if (wide <= kLeast) return std::numeric_limits<To>::min();
  if (wide >= kMost) return std::numeric_limits<To>::max();
  return static_cast<To>(wide);
}

/// A computed value in fp32. A cast to 8 or 16 bits then rounds once.
template <typename From>
RONDE_HOST_DEVICE inline float narrowed(From value) {
  if constexpr (std::is_same_v<From, double>) return round_to_odd(value);
  return static_cast<float>(value);
}

/// Makes an element of type To from a computed value.
template <typename To>
struct Store {
  template <typename From>
  RONDE_HOST_DEVICE static To from(From value) {
    if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
      return to_integer<To>(value);
    } else {
      return static_cast<To>(value);
    }
  }
};
template <>
struct Store<Half> {
  template <typename From>
  RONDE_HOST_DEVICE static Half from(From value) {
    return {float_to_float16(narrowed(value))};
  }
};
template <>
struct Store<Brain> {
  template <typename From>
  RONDE_HOST_DEVICE static Brain from(From value) {
    return {float_to_bfloat16(narrowed(value))};
  }
};
template <>
struct Store<E4m3> {
  template <typename From>
  RONDE_HOST_DEVICE static E4m3 from(From value) {
    return {float_to_float8_e4m3(narrowed(value))};
  }
};
template <>
struct Store<E5m2> {
  template <typename From>
  RONDE_HOST_DEVICE static E5m2 from(From value) {
    return {float_to_float8_e5m2(narrowed(value))};
  }
};
template <>
struct Store<Truth> {
  template <typename From>
  RONDE_HOST_DEVICE static Truth from(From value) {
    return {static_cast<std::uint8_t>(value != From{} ? 1 : 0)};
  }
};

/// The product with a factor. Integers: in double. bool: the factor is ignored.
template <typename T>
RONDE_HOST_DEVICE inline auto scaled(T element, double factor) {
  const auto value = load(element);
  if constexpr (std::is_same_v<T, Truth>) {
    return value;
  } else if constexpr (std::is_floating_point_v<decltype(value)>) {
    using Float = std::remove_const_t<decltype(value)>;
    return static_cast<Float>(value * static_cast<Float>(factor));
  } else {
    return static_cast<double>(value) * factor;
  }
}

/// One element of a batched copy.
template <typename From, typename To>
RONDE_HOST_DEVICE inline To transformed(From element, double factor) {
  return factor == 1.0 ? Store<To>::from(load(element)) : Store<To>::from(scaled(element, factor));
}

}  // namespace ronde::cuda
