// Element types, reduce operations and collectives: the words every layer shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/export.h"
#include "core/base/status.h"

namespace ronde {

/// Element type of a tensor. The numeric values travel on the wire and never change.
enum class DType : std::uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kBfloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
  kFloat8E4m3 = 10,  ///< OCP's E4M3 without infinities ("fn"); see core/base/float8.h.
  kFloat8E5m2 = 11,
};
inline constexpr int kDTypeCount = 12;

/// How elements of different ranks are combined. Values travel on the wire.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kAverage = 1,
  kMin = 2,
  kMax = 3,
  kProduct = 4,
  kBitAnd = 5,  ///< Integers and bool only, as the next two.
  kBitOr = 6,
  kBitXor = 7,
};
inline constexpr int kReduceOpCount = 8;

/// What is done collectively. Values travel on the wire.
enum class Collective : std::uint8_t {
  kAllreduce = 0,
  kAllgather = 1,
  kBroadcast = 2,
  kReduceScatter = 3,
  kAlltoall = 4,
  kReduce = 5,
  kGather = 6,
  kScatter = 7,
  kBarrier = 8,
  kJoin = 9,
};
inline constexpr int kCollectiveCount = 10;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::size_t kSizes[kDTypeCount] = {1, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1, 1};
  return kSizes[static_cast<std::size_t>(dtype)];
}

constexpr bool is_float8(DType dtype) noexcept {
  return dtype == DType::kFloat8E4m3 || dtype == DType::kFloat8E5m2;
}

/// Floating types of 8 and 16 bits, which are computed in fp32 and rounded once.
constexpr bool is_narrow_floating(DType dtype) noexcept {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || is_float8(dtype);
}

constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || is_narrow_floating(dtype);
}

/// True where `op` is defined on `dtype` (bitwise operations need integers or bool).
constexpr bool is_defined(ReduceOp op, DType dtype) noexcept {
  const bool bitwise = op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
  return !bitwise || !is_floating(dtype);
}

/// The field's names: "float32", "average", "allreduce". Never fail; unknown values read "?".
RONDE_API std::string_view to_string(DType dtype) noexcept;
RONDE_API std::string_view to_string(ReduceOp op) noexcept;
RONDE_API std::string_view to_string(Collective kind) noexcept;

/// The inverse of to_string. Errors: kInvalidArgument naming the value and what is allowed.
RONDE_API Result<DType> parse_dtype(std::string_view text);
RONDE_API Result<ReduceOp> parse_reduce_op(std::string_view text);
RONDE_API Result<Collective> parse_collective(std::string_view text);

}  // namespace ronde
