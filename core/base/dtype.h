// Tensors: element types and reduce operations, with one row of facts for each; shapes and devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_table.h"
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
  kFloat8E4m3 = 10,  ///< OCP's E4M3 without infinities ("fn"); see core/base/small_float.h.
  kFloat8E5m2 = 11,
  kUint16 = 12,
  kUint32 = 13,
  kUint64 = 14,
};

/// The facts of an element type.
struct DTypeTraits {
  DType value;
  std::string_view name;  ///< The field's: "float32".
  std::size_t bytes;      ///< Of one element.
  bool floating = false;
};

/// One row for each element type, in the order of their values.
inline constexpr std::array kDTypes = {
    DTypeTraits{DType::kUint8, "uint8", 1},
    DTypeTraits{DType::kInt8, "int8", 1},
    DTypeTraits{DType::kInt16, "int16", 2},
    DTypeTraits{DType::kInt32, "int32", 4},
    DTypeTraits{DType::kInt64, "int64", 8},
    DTypeTraits{DType::kFloat16, "float16", 2, true},
    DTypeTraits{DType::kBfloat16, "bfloat16", 2, true},
    DTypeTraits{DType::kFloat32, "float32", 4, true},
    DTypeTraits{DType::kFloat64, "float64", 8, true},
    DTypeTraits{DType::kBool, "bool", 1},
    DTypeTraits{DType::kFloat8E4m3, "float8_e4m3fn", 1, true},
    DTypeTraits{DType::kFloat8E5m2, "float8_e5m2", 1, true},
    DTypeTraits{DType::kUint16, "uint16", 2},
    DTypeTraits{DType::kUint32, "uint32", 4},
    DTypeTraits{DType::kUint64, "uint64", 8},
};
inline constexpr int kDTypeCount = static_cast<int>(kDTypes.size());

/// How elements of different ranks are combined. Values travel on the wire.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kAverage = 1,
  kMin = 2,
  kMax = 3,
  kProduct = 4,
  kBitAnd = 5,
  kBitOr = 6,
  kBitXor = 7,
  kAdasum = 8,  ///< Adaptive summation, see ops/adasum/tree.h.
};

/// The facts of a reduce operation.
struct ReduceOpTraits {
  ReduceOp value;
  std::string_view name;
  bool bitwise = false;  ///< Defined on integers and bool only.
  /// Needs dot products of whole tensors: no tensor may be cut. Defined for allreduces of floating
  /// types of 16 bits or more.
  bool whole_tensors = false;
};

/// One row for each reduce operation, in the order of their values.
inline constexpr std::array kReduceOps = {
    ReduceOpTraits{ReduceOp::kSum, "sum"},
    ReduceOpTraits{ReduceOp::kAverage, "average"},
    ReduceOpTraits{ReduceOp::kMin, "min"},
    ReduceOpTraits{ReduceOp::kMax, "max"},
    ReduceOpTraits{ReduceOp::kProduct, "product"},
    ReduceOpTraits{ReduceOp::kBitAnd, "bitand", true},
    ReduceOpTraits{ReduceOp::kBitOr, "bitor", true},
    ReduceOpTraits{ReduceOp::kBitXor, "bitxor", true},
    ReduceOpTraits{.value = ReduceOp::kAdasum, .name = "adasum", .whole_tensors = true},
};
inline constexpr int kReduceOpCount = static_cast<int>(kReduceOps.size());

static_assert(is_in_order(kDTypes) && is_in_order(kReduceOps));

/// The row of a known value.
constexpr const DTypeTraits& traits_of(DType dtype) noexcept {
  return kDTypes[static_cast<std::size_t>(dtype)];
}
constexpr const ReduceOpTraits& traits_of(ReduceOp op) noexcept {
  return kReduceOps[static_cast<std::size_t>(op)];
}

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept { return traits_of(dtype).bytes; }

constexpr bool is_floating(DType dtype) noexcept { return traits_of(dtype).floating; }

constexpr bool is_float8(DType dtype) noexcept { return is_floating(dtype) && size_of(dtype) == 1; }

/// Floating types of 8 and 16 bits, which are computed in fp32 and rounded once.
constexpr bool is_narrow_floating(DType dtype) noexcept {
  return is_floating(dtype) && size_of(dtype) <= 2;
}

/// True where `op` combines the ranks' elements at each place on their own.
constexpr bool is_element_wise(ReduceOp op) noexcept { return !traits_of(op).whole_tensors; }

/// True where `op` is defined on `dtype`: see ReduceOpTraits.
constexpr bool is_defined(ReduceOp op, DType dtype) noexcept {
  if (!is_element_wise(op)) return is_floating(dtype) && !is_float8(dtype);
  return !traits_of(op).bitwise || !is_floating(dtype);
}

/// The name in the table; "?" for an unknown value.
constexpr std::string_view to_string(DType dtype) noexcept { return name_in(kDTypes, dtype); }
constexpr std::string_view to_string(ReduceOp op) noexcept { return name_in(kReduceOps, op); }

/// The inverse of to_string. Errors: kInvalidArgument naming the value and what is allowed.
inline Result<DType> parse_dtype(std::string_view text) { return parse_in(kDTypes, text, "dtype"); }
inline Result<ReduceOp> parse_reduce_op(std::string_view text) {
  return parse_in(kReduceOps, text, "reduce operation");
}

enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1 };

/// A device of this host; `index` is the CUDA ordinal and 0 for the CPU.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// Extents in elements, outermost first. No extents mean a single element.
using Shape = std::vector<std::int64_t>;

/// Number of elements: 1 for no dimensions, 0 where any extent is 0.
inline std::int64_t element_count(const Shape& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// "[2, 3]".
inline std::string to_string(const Shape& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + text + "]";
}

}  // namespace ronde
