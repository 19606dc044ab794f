#include "tests/conformance/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/small_float.h"

namespace ronde::test {
namespace {

template <typename T>
T load(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
void store_wrapped(Bytes& bytes, std::size_t index, double value) {
  store(bytes, index, static_cast<T>(static_cast<std::int64_t>(value)));
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
}

double combine_bools(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kMin:
    case ReduceOp::kProduct:
    case ReduceOp::kBitAnd:
      return std::min(a, b);
    case ReduceOp::kBitXor:
      return a == b ? 0 : 1;
    default:
      return std::max(a, b);
  }
}

double combine_numbers(ReduceOp op, double a, double b) {
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kBitAnd:
      return static_cast<double>(x & y);
    case ReduceOp::kBitOr:
      return static_cast<double>(x | y);
    case ReduceOp::kBitXor:
      return static_cast<double>(x ^ y);
    default:
      return a + b;
  }
}

// How far from the exact value a result may be. Few sums are exact in 8 bits.
double tolerance(ReduceOp op, DType dtype, double value) {
  if (dtype == DType::kFloat8E4m3) return std::ldexp(std::abs(value), -3);
  if (dtype == DType::kFloat8E5m2) return std::ldexp(std::abs(value), -2);
  if (op != ReduceOp::kAverage || !is_floating(dtype)) return 0;
  switch (dtype) {
    case DType::kFloat16:
      return std::ldexp(std::abs(value), -10);
    case DType::kBfloat16:
      return std::ldexp(std::abs(value), -7);
    case DType::kFloat32:
      return std::ldexp(std::abs(value), -22);
    default:
      return std::ldexp(std::abs(value), -51);
  }
}

// `value` as a tensor of `dtype` holds it; floating values are left as they are.
double held(DType dtype, double value) {
  if (is_floating(dtype) || dtype == DType::kBool) return value;
  Bytes one(size_of(dtype));
  put(dtype, one, 0, value);
  return get(dtype, one, 0);
}

}  // namespace

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

std::vector<ReduceOp> all_ops() {
  std::vector<ReduceOp> all;
  for (const ReduceOpTraits& row : kReduceOps) {
    if (is_element_wise(row.value)) all.push_back(row.value);
  }
  return all;
}

double get(DType dtype, const Bytes& bytes, std::size_t index) {
  switch (dtype) {
    case DType::kInt8:
      return load<std::int8_t>(bytes, index);
    case DType::kInt16:
      return load<std::int16_t>(bytes, index);
    case DType::kInt32:
      return load<std::int32_t>(bytes, index);
    case DType::kInt64:
      return static_cast<double>(load<std::int64_t>(bytes, index));
    case DType::kUint16:
      return load<std::uint16_t>(bytes, index);
    case DType::kUint32:
      return load<std::uint32_t>(bytes, index);
    case DType::kUint64:
      return static_cast<double>(load<std::uint64_t>(bytes, index));
    case DType::kFloat16:
      return static_cast<double>(float16_to_float(load<std::uint16_t>(bytes, index)));
    case DType::kBfloat16:
      return static_cast<double>(bfloat16_to_float(load<std::uint16_t>(bytes, index)));
    case DType::kFloat8E4m3:
      return static_cast<double>(float8_e4m3_to_float(load<std::uint8_t>(bytes, index)));
    case DType::kFloat8E5m2:
      return static_cast<double>(float8_e5m2_to_float(load<std::uint8_t>(bytes, index)));
    case DType::kFloat32:
      return static_cast<double>(load<float>(bytes, index));
    case DType::kFloat64:
      return load<double>(bytes, index);
    default:
      return load<std::uint8_t>(bytes, index);
  }
}

void put(DType dtype, Bytes& bytes, std::size_t index, double value) {
  switch (dtype) {
    case DType::kInt8:
      return store_wrapped<std::int8_t>(bytes, index, value);
    case DType::kInt16:
      return store_wrapped<std::int16_t>(bytes, index, value);
    case DType::kInt32:
      return store_wrapped<std::int32_t>(bytes, index, value);
    case DType::kInt64:
      return store_wrapped<std::int64_t>(bytes, index, value);
    case DType::kUint16:
      return store_wrapped<std::uint16_t>(bytes, index, value);
    case DType::kUint32:
      return store_wrapped<std::uint32_t>(bytes, index, value);
    case DType::kUint64:
      return store_wrapped<std::uint64_t>(bytes, index, value);
    case DType::kFloat16:
      return store(bytes, index, float_to_float16(static_cast<float>(value)));
    case DType::kBfloat16:
      return store(bytes, index, float_to_bfloat16(static_cast<float>(value)));
    case DType::kFloat8E4m3:
      return store(bytes, index, float_to_float8_e4m3(static_cast<float>(value)));
    case DType::kFloat8E5m2:
      return store(bytes, index, float_to_float8_e5m2(static_cast<float>(value)));
    case DType::kFloat32:
      return store(bytes, index, static_cast<float>(value));
    case DType::kFloat64:
      return store(bytes, index, value);
    default:
      return store_wrapped<std::uint8_t>(bytes, index, value);
  }
}

double operand(ReduceOp op, DType dtype, int rank, std::size_t index) {
  const auto i = static_cast<int>(index % 9973);
  if (dtype == DType::kBool) return (rank + i) % 3 == 0 ? 1 : 0;
  if (op == ReduceOp::kProduct) return 1 + (rank + i) % 2;
  if (is_float8(dtype)) return (rank * 7 + i * 3) % 4 + 0.5;
  if (is_bitwise(op)) return (rank * 37 + i * 11) % 128;
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return (rank * 29 + i * 7) % 101;
  return (rank * 7 + i * 3) % 5 + (is_floating(dtype) ? 0.5 : 0);
}

Bytes operands(ReduceOp op, DType dtype, int rank, std::size_t count) {
  Bytes bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) put(dtype, bytes, i, operand(op, dtype, rank, i));
  return bytes;
}

Bytes pattern(int rank, std::size_t bytes) {
  Bytes made(bytes);
  std::uint32_t state = static_cast<std::uint32_t>(rank) * 2654435761U + 12345U;
  for (std::byte& byte : made) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return made;
}

double expected(ReduceOp op, DType dtype, int ranks, std::size_t index) {
  double value = operand(op, dtype, 0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = operand(op, dtype, rank, index);
    value =
        dtype == DType::kBool ? combine_bools(op, value, next) : combine_numbers(op, value, next);
  }
  if (op != ReduceOp::kAverage || dtype == DType::kBool) return held(dtype, value);
  value /= ranks;
  return is_floating(dtype) ? value : std::trunc(value);
}

std::string compare(ReduceOp op, DType dtype, int ranks, const Bytes& bytes, std::size_t begin) {
  for (std::size_t i = 0; i < bytes.size() / size_of(dtype); ++i) {
    const double wanted = expected(op, dtype, ranks, begin + i);
    const double got = get(dtype, bytes, i);
    if (std::abs(got - wanted) <= tolerance(op, dtype, wanted)) continue;
    return fmt::format("element {} is {}, not {}", i, got, wanted);
  }
  return {};
}

std::string compare_bytes(const Bytes& got, const Bytes& wanted) {
  if (got.size() != wanted.size()) {
    return fmt::format("{} bytes, not {}", got.size(), wanted.size());
  }
  const auto [at, other] = std::mismatch(got.begin(), got.end(), wanted.begin());
  return at == got.end() ? std::string() : fmt::format("byte {} differs", at - got.begin());
}

}  // namespace ronde::test
