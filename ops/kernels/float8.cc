// The 8-bit floating types: every value has its fp32 in a table, everything is computed there, and
// the result is rounded once. One element at a time: such tensors are a quarter of fp32's bytes.
#include <array>
#include <cmath>
#include <cstdint>

#include "core/base/small_float.h"
#include "ops/kernels/entries.h"

namespace ronde::kernels {
namespace {

template <typename Decode>
std::array<float, 256> table_of(Decode decode) {
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = decode(static_cast<std::uint8_t>(i));
  return table;
}

struct E4m3 {
  static float decode(std::uint8_t bits) {
    static const auto kTable = table_of(&float8_e4m3_to_float);
    return kTable[bits];
  }
  static std::uint8_t encode(float value) { return float_to_float8_e4m3(value); }
};
struct E5m2 {
  static float decode(std::uint8_t bits) {
    static const auto kTable = table_of(&float8_e5m2_to_float);
    return kTable[bits];
  }
  static std::uint8_t encode(float value) { return float_to_float8_e5m2(value); }
};

/// NaN propagates in min and max.
float combined(ReduceOp op, float a, float b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::isnan(a) || a < b ? a : b;
    case ReduceOp::kMax:
      return std::isnan(a) || a > b ? a : b;
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

const std::uint8_t* bytes_of(const void* memory) {
  return static_cast<const std::uint8_t*>(memory);
}

template <typename Format>
void reduce_as(const ReduceCall& call) {
  const auto pre = static_cast<float>(call.pre);
  const auto post = static_cast<float>(call.post);
  auto* out = static_cast<std::uint8_t*>(call.out);
  for (std::size_t i = 0; i < call.count; ++i) {
    float value = Format::decode(bytes_of(call.inputs[0])[i]) * pre;
    for (const void* input : call.inputs.subspan(1)) {
      value = combined(call.op, value, Format::decode(bytes_of(input)[i]) * pre);
    }
    out[i] = Format::encode(value * post);
  }
}

template <typename Format>
void accumulate_as(const AccumulateCall& call) {
  const auto pre = static_cast<float>(call.pre);
  for (std::size_t i = 0; i < call.count; ++i) {
    const float value = Format::decode(bytes_of(call.input)[i]) * pre;
    call.out[i] = combined(call.op, call.partial[i], value);
  }
}

}  // namespace

void reduce_float8(const ReduceCall& call) {
  if (call.dtype == DType::kFloat8E4m3) return reduce_as<E4m3>(call);
  return reduce_as<E5m2>(call);
}

void accumulate_float8(const AccumulateCall& call) {
  if (call.dtype == DType::kFloat8E4m3) return accumulate_as<E4m3>(call);
  return accumulate_as<E5m2>(call);
}

}  // namespace ronde::kernels
