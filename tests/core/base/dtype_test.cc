#include "core/base/dtype.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("dtype: every name parses back to its value") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(parse_dtype(to_string(dtype)).value() == dtype);
    CHECK(size_of(dtype) > 0);
  }
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    CHECK(parse_reduce_op(to_string(op)).value() == op);
  }
}

TEST_CASE("dtype: an unknown name is an error that lists what is allowed") {
  const auto result = parse_dtype("float8");
  CHECK(result.status().code() == Code::kInvalidArgument);
  CHECK(result.status().message().find("\"float8\"") != std::string::npos);
  CHECK(result.status().message().find("bfloat16") != std::string::npos);
}

TEST_CASE("dtype: rows say which types are floating, and how wide") {
  CHECK(size_of(DType::kBfloat16) == 2);
  CHECK(is_floating(DType::kFloat64));
  CHECK_FALSE(is_narrow_floating(DType::kFloat32));
  CHECK(is_narrow_floating(DType::kFloat16));
  CHECK(is_float8(DType::kFloat8E5m2));
  CHECK_FALSE(is_float8(DType::kInt8));
  CHECK_FALSE(is_floating(DType::kBool));
}

TEST_CASE("dtype: bitwise operations are defined on integers and bool only") {
  CHECK(is_defined(ReduceOp::kBitAnd, DType::kInt32));
  CHECK(is_defined(ReduceOp::kBitXor, DType::kBool));
  CHECK_FALSE(is_defined(ReduceOp::kBitOr, DType::kFloat16));
}

TEST_CASE("dtype: Adasum is defined on floating types of 16 bits and more") {
  CHECK(is_defined(ReduceOp::kAdasum, DType::kBfloat16));
  CHECK(is_defined(ReduceOp::kAdasum, DType::kFloat64));
  CHECK_FALSE(is_defined(ReduceOp::kAdasum, DType::kFloat8E4m3));
  CHECK_FALSE(is_defined(ReduceOp::kAdasum, DType::kInt64));
  CHECK_FALSE(is_element_wise(ReduceOp::kAdasum));
  CHECK(is_element_wise(ReduceOp::kBitAnd));
}

}  // namespace ronde
