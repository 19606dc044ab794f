// Conversions between any two element types, one element at a time: rarely used pairs, where
// rounding only once matters more than speed.
#include <bit>
#include <cstring>
#include <type_traits>

#include "core/base/small_float.h"
#include "ops/kernels/entries.h"
#include "ops/kernels/scalar.h"

namespace ronde::kernels {
namespace {

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
  std::uint8_t byte;
};

/// The type of 64 bits that holds a type's values.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;

/// Rounding to odd, of integers that fp64 cannot hold.
double sticky_double(std::uint64_t value) {
  constexpr std::uint64_t kDropped = 2047;  // leaves 53 bits
  if (value >> 53 == 0) return static_cast<double>(value);
  const std::uint64_t sticky = (value & kDropped) != 0 ? kDropped + 1 : 0;
  return static_cast<double>((value & ~kDropped) | sticky);
}
double sticky_double(std::int64_t value) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (value >= -kExact && value <= kExact) return static_cast<double>(value);
  constexpr std::int64_t kDropped = 2047;  // leaves 52 bits
  const std::int64_t sticky = (value & kDropped) != 0 ? kDropped + 1 : 0;
  return static_cast<double>((value & ~kDropped) | sticky);
}

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Conversions pass through fp64 for floating types, through the type itself for others.
double open(Half value) { return static_cast<double>(float16_to_float(value.bits)); }
double open(Brain value) { return static_cast<double>(bfloat16_to_float(value.bits)); }
double open(E4m3 value) { return static_cast<double>(float8_e4m3_to_float(value.bits)); }
double open(E5m2 value) { return static_cast<double>(float8_e5m2_to_float(value.bits)); }
double open(float value) { return static_cast<double>(value); }
double open(double value) { return value; }
std::uint8_t open(Truth value) { return value.byte != 0 ? 1 : 0; }
template <typename T>
requires std::is_integral_v<T> T open(T value) { return value; }

double to_double(double value) { return value; }
template <typename T>
requires std::is_integral_v<T>
double to_double(T value) { return sticky_double(Wide<T>{value}); }

template <typename To, typename From>
To close(From value) {
  if constexpr (std::is_same_v<To, Half>) {
    return {float_to_float16(round_to_odd(to_double(value)))};
  } else if constexpr (std::is_same_v<To, Brain>) {
    return {float_to_bfloat16(round_to_odd(to_double(value)))};
  } else if constexpr (std::is_same_v<To, E4m3>) {
    return {float_to_float8_e4m3(round_to_odd(to_double(value)))};
  } else if constexpr (std::is_same_v<To, E5m2>) {
    return {float_to_float8_e5m2(round_to_odd(to_double(value)))};
  } else if constexpr (std::is_same_v<To, Truth>) {
    return {static_cast<std::uint8_t>(value != From{0} ? 1 : 0)};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return truncate_to<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void cast_all(const std::byte* in, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const To value = close<To>(open(read<From>(in + i * sizeof(From))));
    std::memcpy(out + i * sizeof(To), &value, sizeof(To));
  }
}

/// Calls `visit` with a value of the C++ type that stands for `dtype`.
template <typename Visitor>
void with_type(DType dtype, const Visitor& visit) {
  switch (dtype) {
    case DType::kUint8:
      return visit(std::uint8_t{});
    case DType::kInt8:
      return visit(std::int8_t{});
    case DType::kInt16:
      return visit(std::int16_t{});
    case DType::kInt32:
      return visit(std::int32_t{});
    case DType::kInt64:
      return visit(std::int64_t{});
    case DType::kFloat16:
      return visit(Half{});
    case DType::kBfloat16:
      return visit(Brain{});
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kBool:
      return visit(Truth{});
    case DType::kFloat8E4m3:
      return visit(E4m3{});
    case DType::kFloat8E5m2:
      return visit(E5m2{});
    case DType::kUint16:
      return visit(std::uint16_t{});
    case DType::kUint32:
      return visit(std::uint32_t{});
    case DType::kUint64:
      return visit(std::uint64_t{});
  }
}

}  // namespace

void cast_scalar(DType from, const void* in, DType to, void* out, std::size_t count) {
  with_type(from, [&](auto source) {
    with_type(to, [&](auto target) {
      cast_all<decltype(source), decltype(target)>(static_cast<const std::byte*>(in),
                                                   static_cast<std::byte*>(out), count);
    });
  });
}

}  // namespace ronde::kernels
