// The results that the kernels must compute, in plain code for one element at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/small_float.h"
#include "core/ports/reduce_kernels.h"
#include "ops/kernels/scalar.h"

namespace ronde::test {

using Bytes = std::vector<unsigned char>;

/// Memory at any offset from an aligned address, so that misaligned pointers can be made.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t offset) : memory_(bytes + offset), offset_(offset) {}
  explicit Buffer(const Bytes& bytes, std::size_t offset = 0) : Buffer(bytes.size(), offset) {
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  [[nodiscard]] unsigned char* data() { return memory_.data() + offset_; }
  [[nodiscard]] Bytes bytes() const {
    return {memory_.begin() + static_cast<std::ptrdiff_t>(offset_), memory_.end()};
  }

 private:
  Bytes memory_;
  std::size_t offset_;
};

template <typename T>
T element(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void put(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

/// NaN propagates in min and max.
template <typename T>
T combine_floats(ReduceOp op, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  switch (op) {
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return b > a ? b : a;
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

/// The type in which a sum of T is kept before it is scaled.
template <typename T>
using WideSum = std::conditional_t<std::is_same_v<T, float>, double, __float128>;

inline bool needs_wide_sum(const Reduction& what, std::size_t inputs) {
  if (!is_rounded_once(what)) return false;
  if (inputs != 2) return inputs > 2;
  const double post = what.scaling.post;
  return post != 1.0 && (what.dtype == DType::kFloat32 || kernels::divisor_of(post) != 0.0);
}

/// A scaled sum of several values. A division rounds once; a multiplication of float64 rounds the
/// sum and its error apart.
template <typename T>
T reduce_wide(const Reduction& what, const std::vector<T>& values) {
  WideSum<T> sum = 0;
  for (const T value : values) {
    sum += std::is_same_v<T, float> ? static_cast<WideSum<T>>(value) * what.scaling.pre
                                    : static_cast<WideSum<T>>(value * what.scaling.pre);
  }
  const double divisor = kernels::divisor_of(what.scaling.post);
  if (divisor != 0.0) return static_cast<T>(sum / divisor);
  if (std::is_same_v<T, float>) return static_cast<T>(sum * what.scaling.post);
  const T high = static_cast<T>(sum);
  const T low = static_cast<T>(sum - high);
  const T factor = static_cast<T>(what.scaling.post);
  return high * factor + low * factor;
}

template <typename T>
T reduce_floats(const Reduction& what, const std::vector<T>& values) {
  const T pre = static_cast<T>(what.scaling.pre);
  T result = values[0] * pre;
  for (std::size_t k = 1; k < values.size(); ++k) {
    result = combine_floats<T>(what.op, result, values[k] * pre);
  }
  const double divisor = kernels::divisor_of(what.scaling.post);
  if (divisor != 0.0) return result / static_cast<T>(divisor);
  return result * static_cast<T>(what.scaling.post);
}

template <typename T>
T scale_integer_reference(T value, double factor) {
  if (factor == 1.0) return value;
  const long double product =
      std::trunc(static_cast<long double>(static_cast<double>(value) * factor));
  if (product > static_cast<long double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  if (product < static_cast<long double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(product);
}

/// Wraps: computed modulo 2^64, cut to the type's width.
template <typename T>
T combine_integers(ReduceOp op, T a, T b) {
  // The sign must spread.  NOLINTNEXTLINE(bugprone-signed-char-misuse)
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);  // NOLINT(bugprone-signed-char-misuse)
  switch (op) {
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return b > a ? b : a;
    case ReduceOp::kProduct:
      return static_cast<T>(x * y);
    case ReduceOp::kBitAnd:
      return static_cast<T>(x & y);
    case ReduceOp::kBitOr:
      return static_cast<T>(x | y);
    case ReduceOp::kBitXor:
      return static_cast<T>(x ^ y);
    default:
      return static_cast<T>(x + y);
  }
}

/// A scaled sum is computed modulo 2^64.
template <typename T>
T scaled_sum_of_integers(const Reduction& what, const std::vector<T>& values) {
  std::uint64_t sum = 0;
  for (const T value : values) {
    sum += static_cast<std::uint64_t>(
        static_cast<std::int64_t>(scale_integer_reference(value, what.scaling.pre)));
  }
  using Whole = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;
  const auto whole = static_cast<Whole>(sum);
  const std::int64_t divisor = kernels::integer_divisor_of(what.scaling.post);
  if (divisor != 0) return kernels::divide_integer<T>(whole, divisor);
  return kernels::truncate_to<T>(static_cast<double>(whole) * what.scaling.post);
}

template <typename T>
T reduce_integers(const Reduction& what, const std::vector<T>& values) {
  if (what.op == ReduceOp::kSum && what.scaling.post != 1.0) {
    return scaled_sum_of_integers(what, values);
  }
  T result = scale_integer_reference(values[0], what.scaling.pre);
  for (std::size_t k = 1; k < values.size(); ++k) {
    const T next = scale_integer_reference(values[k], what.scaling.pre);
    result = combine_integers<T>(what.op, result, next);
  }
  return scale_integer_reference(result, what.scaling.post);
}

inline std::uint8_t reduce_bools(const Reduction& what, const std::vector<std::uint8_t>& values) {
  std::size_t trues = 0;
  for (const std::uint8_t value : values) trues += value != 0 ? 1 : 0;
  switch (what.op) {
    case ReduceOp::kMin:
    case ReduceOp::kProduct:
    case ReduceOp::kBitAnd:
      return trues == values.size() ? 1 : 0;
    case ReduceOp::kBitXor:
      return trues % 2 == 1 ? 1 : 0;
    default:
      return trues > 0 ? 1 : 0;
  }
}

/// Calls reduce(values of one place), which returns the result, for each place.
template <typename T, typename Reduce>
Bytes for_each_place(const std::vector<Bytes>& inputs, const Reduce& reduce) {
  Bytes out(inputs[0].size());
  for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
    std::vector<T> values;
    values.reserve(inputs.size());
    for (const Bytes& input : inputs) values.push_back(element<T>(input, i));
    put<T>(out, i, reduce(values));
  }
  return out;
}

/// 8- and 16-bit types through fp32, rounded once.
template <typename Bits>
Bytes reduce_narrow(const Reduction& what, const std::vector<Bytes>& inputs, float (*widen)(Bits),
                    Bits (*narrow)(float)) {
  return for_each_place<Bits>(inputs, [&](const std::vector<Bits>& values) {
    std::vector<float> wide;
    wide.reserve(values.size());
    for (const Bits value : values) wide.push_back(widen(value));
    return narrow(reduce_floats(what, wide));
  });
}

template <typename T>
Bytes reduce_as(const Reduction& what, const std::vector<Bytes>& inputs) {
  return for_each_place<T>(inputs, [&](const std::vector<T>& values) {
    if constexpr (std::is_floating_point_v<T>) {
      return needs_wide_sum(what, values.size()) ? reduce_wide(what, values)
                                                 : reduce_floats(what, values);
    } else {
      return reduce_integers(what, values);
    }
  });
}

inline Bytes reference(const Reduction& what, const std::vector<Bytes>& inputs) {
  switch (what.dtype) {
    case DType::kUint8:
      return reduce_as<std::uint8_t>(what, inputs);
    case DType::kInt8:
      return reduce_as<std::int8_t>(what, inputs);
    case DType::kInt16:
      return reduce_as<std::int16_t>(what, inputs);
    case DType::kInt32:
      return reduce_as<std::int32_t>(what, inputs);
    case DType::kInt64:
      return reduce_as<std::int64_t>(what, inputs);
    case DType::kUint16:
      return reduce_as<std::uint16_t>(what, inputs);
    case DType::kUint32:
      return reduce_as<std::uint32_t>(what, inputs);
    case DType::kUint64:
      return reduce_as<std::uint64_t>(what, inputs);
    case DType::kFloat16:
      return reduce_narrow(what, inputs, float16_to_float, float_to_float16);
    case DType::kBfloat16:
      return reduce_narrow(what, inputs, bfloat16_to_float, float_to_bfloat16);
    case DType::kFloat8E4m3:
      return reduce_narrow(what, inputs, float8_e4m3_to_float, float_to_float8_e4m3);
    case DType::kFloat8E5m2:
      return reduce_narrow(what, inputs, float8_e5m2_to_float, float_to_float8_e5m2);
    case DType::kFloat32:
      return reduce_as<float>(what, inputs);
    case DType::kFloat64:
      return reduce_as<double>(what, inputs);
    default:
      return for_each_place<std::uint8_t>(inputs, [&](const std::vector<std::uint8_t>& values) {
        return reduce_bools(what, values);
      });
  }
}

/// Element `index` as a number, for comparing and showing.
inline long double number(DType dtype, const Bytes& bytes, std::size_t index) {
  switch (dtype) {
    case DType::kInt8:
      return element<std::int8_t>(bytes, index);
    case DType::kInt16:
      return element<std::int16_t>(bytes, index);
    case DType::kInt32:
      return element<std::int32_t>(bytes, index);
    case DType::kInt64:
      return static_cast<long double>(element<std::int64_t>(bytes, index));
    case DType::kUint16:
      return element<std::uint16_t>(bytes, index);
    case DType::kUint32:
      return element<std::uint32_t>(bytes, index);
    case DType::kUint64:
      return static_cast<long double>(element<std::uint64_t>(bytes, index));
    case DType::kFloat16:
      return static_cast<long double>(float16_to_float(element<std::uint16_t>(bytes, index)));
    case DType::kBfloat16:
      return static_cast<long double>(bfloat16_to_float(element<std::uint16_t>(bytes, index)));
    case DType::kFloat8E4m3:
      return static_cast<long double>(float8_e4m3_to_float(element<std::uint8_t>(bytes, index)));
    case DType::kFloat8E5m2:
      return static_cast<long double>(float8_e5m2_to_float(element<std::uint8_t>(bytes, index)));
    case DType::kFloat32:
      return static_cast<long double>(element<float>(bytes, index));
    case DType::kFloat64:
      return static_cast<long double>(element<double>(bytes, index));
    default:
      return element<std::uint8_t>(bytes, index);
  }
}

/// "" where equal. Equal means the same number, or both NaN; for min and max, -0 equals 0.
inline std::string difference(DType dtype, const Bytes& got, const Bytes& want) {
  if (got.size() != want.size()) return "unequal sizes";
  for (std::size_t i = 0; i < want.size() / size_of(dtype); ++i) {
    const long double a = number(dtype, got, i);
    const long double b = number(dtype, want, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(a) + ", expected " +
           std::to_string(b);
  }
  return "";
}

/// Small numbers and, one in eight, any bits at all: infinities, NaN, subnormals, extremes.
inline Bytes random_elements(DType dtype, std::size_t count, std::mt19937& random) {
  Bytes bytes(count * size_of(dtype));
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % 8 == 0) continue;
    const auto value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64.0F;
    if (dtype == DType::kFloat16) put(bytes, i, float_to_float16(value));
    if (dtype == DType::kBfloat16) put(bytes, i, float_to_bfloat16(value));
    if (dtype == DType::kFloat8E4m3) put(bytes, i, float_to_float8_e4m3(value));
    if (dtype == DType::kFloat8E5m2) put(bytes, i, float_to_float8_e5m2(value));
    if (dtype == DType::kFloat32) put(bytes, i, value);
    if (dtype == DType::kFloat64) put(bytes, i, static_cast<double>(value));
    if (dtype == DType::kBool) put(bytes, i, static_cast<std::uint8_t>(random() % 2));
  }
  return bytes;
}

}  // namespace ronde::test
