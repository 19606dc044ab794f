#include "tests/support/plain_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/small_float.h"

namespace ronde::test {
namespace {

template <typename T>
T load(const void* base, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(void* base, std::size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(base) + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T combine_floats(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kSum) return a + b;
  if (op == ReduceOp::kProduct) return a * b;
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return op == ReduceOp::kMin ? std::fmin(a, b) : std::fmax(a, b);
}

template <typename T>
T combine_integers(ReduceOp op, T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  const auto x = static_cast<std::uint64_t>(static_cast<Wide>(a));
  const auto y = static_cast<std::uint64_t>(static_cast<Wide>(b));
  switch (op) {
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
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

bool combine_bools(ReduceOp op, bool a, bool b) {
  if (op == ReduceOp::kBitXor) return a != b;
  const bool all = op == ReduceOp::kMin || op == ReduceOp::kProduct || op == ReduceOp::kBitAnd;
  return all ? a && b : a || b;
}

template <typename T>
T scale(T value, double factor) {
  if (factor == 1.0) return value;
  if constexpr (std::is_floating_point_v<T>) {
    return value * static_cast<T>(factor);
  } else {
    return static_cast<T>(static_cast<std::int64_t>(static_cast<double>(value) * factor));
  }
}

/// Element `index` of a type that is computed in fp32.
float widened(DType dtype, const void* base, std::size_t index) {
  if (dtype == DType::kFloat8E4m3) return float8_e4m3_to_float(load<std::uint8_t>(base, index));
  if (dtype == DType::kFloat8E5m2) return float8_e5m2_to_float(load<std::uint8_t>(base, index));
  const auto bits = load<std::uint16_t>(base, index);
  return dtype == DType::kFloat16 ? float16_to_float(bits) : bfloat16_to_float(bits);
}

void store_narrowed(DType dtype, void* base, std::size_t index, float value) {
  if (dtype == DType::kFloat8E4m3) return store(base, index, float_to_float8_e4m3(value));
  if (dtype == DType::kFloat8E5m2) return store(base, index, float_to_float8_e5m2(value));
  store(base, index, dtype == DType::kFloat16 ? float_to_float16(value) : float_to_bfloat16(value));
}

using Inputs = std::span<const void* const>;

template <typename T>
void reduce_as(const Reduction& what, Inputs inputs, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum = scale(load<T>(inputs[0], i), what.scaling.pre);
    for (const void* input : inputs.subspan(1)) {
      const T next = scale(load<T>(input, i), what.scaling.pre);
      if constexpr (std::is_floating_point_v<T>) {
        sum = combine_floats(what.op, sum, next);
      } else {
        sum = combine_integers(what.op, sum, next);
      }
    }
    store(out, i, scale(sum, what.scaling.post));
  }
}

void reduce_narrow(const Reduction& what, Inputs inputs, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto input = [&](const void* base) {
      return scale(widened(what.dtype, base, i), what.scaling.pre);
    };
    float sum = input(inputs[0]);
    for (const void* base : inputs.subspan(1)) sum = combine_floats(what.op, sum, input(base));
    store_narrowed(what.dtype, out, i, scale(sum, what.scaling.post));
  }
}

void reduce_bools(const Reduction& what, Inputs inputs, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    bool sum = load<std::uint8_t>(inputs[0], i) != 0;
    for (const void* base : inputs.subspan(1)) {
      sum = combine_bools(what.op, sum, load<std::uint8_t>(base, i) != 0);
    }
    store(out, i, static_cast<std::uint8_t>(sum));
  }
}

double widest(DType dtype, const void* base, std::size_t index) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<double>(load<float>(base, index));
    case DType::kFloat64:
      return load<double>(base, index);
    case DType::kInt8:
      return static_cast<double>(load<std::int8_t>(base, index));
    case DType::kUint8:
      return static_cast<double>(load<std::uint8_t>(base, index));
    case DType::kInt16:
      return static_cast<double>(load<std::int16_t>(base, index));
    case DType::kUint16:
      return static_cast<double>(load<std::uint16_t>(base, index));
    case DType::kInt32:
      return static_cast<double>(load<std::int32_t>(base, index));
    case DType::kUint32:
      return static_cast<double>(load<std::uint32_t>(base, index));
    case DType::kInt64:
      return static_cast<double>(load<std::int64_t>(base, index));
    default:
      return static_cast<double>(widened(dtype, base, index));
  }
}

template <typename T>
void store_truncated(void* base, std::size_t index, double value) {
  const double least = std::numeric_limits<T>::min();
  const double most = std::numeric_limits<T>::max();
  store(base, index, static_cast<T>(std::clamp(value, least, most)));
}

void store_rounded(DType dtype, void* base, std::size_t index, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return store(base, index, static_cast<float>(value));
    case DType::kFloat64:
      return store(base, index, value);
    case DType::kInt8:
      return store_truncated<std::int8_t>(base, index, value);
    case DType::kUint8:
      return store_truncated<std::uint8_t>(base, index, value);
    case DType::kInt16:
      return store_truncated<std::int16_t>(base, index, value);
    case DType::kUint16:
      return store_truncated<std::uint16_t>(base, index, value);
    case DType::kInt32:
      return store_truncated<std::int32_t>(base, index, value);
    case DType::kUint32:
      return store_truncated<std::uint32_t>(base, index, value);
    case DType::kInt64:
      return store(base, index, static_cast<std::int64_t>(value));
    default:
      return store_narrowed(dtype, base, index, static_cast<float>(value));
  }
}

class PlainKernels final : public ReduceKernels {
 public:
  void reduce(const Reduction& what, Inputs inputs, void* out,
              std::size_t count) const noexcept override {
    switch (what.dtype) {
      case DType::kUint8:
        return reduce_as<std::uint8_t>(what, inputs, out, count);
      case DType::kInt8:
        return reduce_as<std::int8_t>(what, inputs, out, count);
      case DType::kInt16:
        return reduce_as<std::int16_t>(what, inputs, out, count);
      case DType::kInt32:
        return reduce_as<std::int32_t>(what, inputs, out, count);
      case DType::kInt64:
        return reduce_as<std::int64_t>(what, inputs, out, count);
      case DType::kUint16:
        return reduce_as<std::uint16_t>(what, inputs, out, count);
      case DType::kUint32:
        return reduce_as<std::uint32_t>(what, inputs, out, count);
      case DType::kUint64:
        return reduce_as<std::uint64_t>(what, inputs, out, count);
      case DType::kFloat32:
        return reduce_as<float>(what, inputs, out, count);
      case DType::kFloat64:
        return reduce_as<double>(what, inputs, out, count);
      case DType::kBool:
        return reduce_bools(what, inputs, out, count);
      default:
        return reduce_narrow(what, inputs, out, count);
    }
  }

  void reduce_streaming(const Reduction& what, Inputs inputs, void* out,
                        std::size_t count) const noexcept override {
    reduce(what, inputs, out, count);
  }

  void accumulate_fp32(const Reduction& what, const float* partial, const void* input, float* out,
                       std::size_t count) const noexcept override {
    for (std::size_t i = 0; i < count; ++i) {
      const float next = scale(widened(what.dtype, input, i), what.scaling.pre);
      out[i] = combine_floats(what.op, partial[i], next);
    }
  }

  void cast(DType from, const void* in, DType to, void* out,
            std::size_t count) const noexcept override {
    for (std::size_t i = 0; i < count; ++i) store_rounded(to, out, i, widest(from, in, i));
  }

  std::size_t first_nonfinite(DType dtype, const void* data, std::size_t count,
                              bool only_nan) const noexcept override {
    std::size_t i = 0;
    const auto is_odd = [&] {
      const auto value = static_cast<double>(widest(dtype, data, i));
      return std::isnan(value) || (!only_nan && std::isinf(value));
    };
    while (i < count && !(is_floating(dtype) && is_odd())) ++i;
    return i;
  }
};

}  // namespace

std::shared_ptr<const ReduceKernels> plain_kernels() { return std::make_shared<PlainKernels>(); }

}  // namespace ronde::test
