// NaN, wrap-around, truth values and scaling: what users are promised, said in single examples.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/small_float.h"
#include "tests/ops/kernels/targets.h"

namespace ronde {
namespace {

template <typename T>
T reduce_one(const ReduceKernels& kernels, const Reduction& what, const std::vector<T>& values) {
  std::vector<const void*> inputs;
  inputs.reserve(values.size());
  for (const T& value : values) inputs.push_back(&value);
  T out{};
  kernels.reduce(what, inputs, &out, 1);
  return out;
}

constexpr auto kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr auto kMinInt32 = std::numeric_limits<std::int32_t>::min();
constexpr auto kMaxInt64 = std::numeric_limits<std::int64_t>::max();
constexpr auto kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("reduce: NaN in any input is in the result of every operation") {
  test::for_each_target([](const ReduceKernels& kernels) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      const Reduction fp32{.dtype = DType::kFloat32, .op = op, .scaling = {}};
      CHECK(std::isnan(reduce_one<float>(kernels, fp32, {kNan, 1.0F, 2.0F})));
      CHECK(std::isnan(reduce_one<float>(kernels, fp32, {1.0F, kNan, 2.0F})));
      CHECK(std::isnan(reduce_one<float>(kernels, fp32, {1.0F, 2.0F, kNan})));
      const Reduction fp64{.dtype = DType::kFloat64, .op = op, .scaling = {}};
      CHECK(std::isnan(reduce_one<double>(kernels, fp64, {1.0, std::nan(""), 2.0})));
      const Reduction fp16{.dtype = DType::kFloat16, .op = op, .scaling = {}};
      const std::uint16_t one = float_to_float16(1.0F);
      CHECK(std::isnan(float16_to_float(reduce_one<std::uint16_t>(kernels, fp16, {0x7e00, one}))));
      const Reduction bf16{.dtype = DType::kBfloat16, .op = op, .scaling = {}};
      CHECK(std::isnan(bfloat16_to_float(reduce_one<std::uint16_t>(kernels, bf16, {one, 0x7fc0}))));
    }
  });
}

TEST_CASE("reduce: a factor that is NaN, whatever its bits, makes every result NaN") {
  const double factor = std::bit_cast<double>(~std::uint64_t{0});
  test::for_each_target([&](const ReduceKernels& kernels) {
    for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
      const Reduction what{.dtype = dtype, .op = ReduceOp::kSum, .scaling = {.pre = factor}};
      const auto bits = reduce_one<std::uint16_t>(kernels, what, {0x3c00, 0x3c00});
      CHECK(
          std::isnan(dtype == DType::kFloat16 ? float16_to_float(bits) : bfloat16_to_float(bits)));
    }
  });
}

TEST_CASE("reduce: integer sums and products wrap") {
  test::for_each_target([](const ReduceKernels& kernels) {
    Reduction what{.dtype = DType::kInt32, .op = ReduceOp::kSum, .scaling = {}};
    CHECK(reduce_one<std::int32_t>(kernels, what, {kMaxInt32, 1}) == kMinInt32);
    what.op = ReduceOp::kProduct;
    CHECK(reduce_one<std::int32_t>(kernels, what, {kMinInt32, -1}) == kMinInt32);
    what.dtype = DType::kUint8;
    CHECK(reduce_one<std::uint8_t>(kernels, what, {16, 17}) == 16);
  });
}

TEST_CASE("reduce: int64 keeps every bit where nothing is scaled") {
  test::for_each_target([](const ReduceKernels& kernels) {
    const Reduction what{.dtype = DType::kInt64, .op = ReduceOp::kSum, .scaling = {}};
    CHECK(reduce_one<std::int64_t>(kernels, what, {kMaxInt64 - 5, 4}) == kMaxInt64 - 1);
  });
}

TEST_CASE("reduce: integer scaling truncates each product towards zero, and saturates") {
  test::for_each_target([](const ReduceKernels& kernels) {
    Reduction what{.dtype = DType::kInt32, .op = ReduceOp::kSum, .scaling = {.pre = 0.5}};
    CHECK(reduce_one<std::int32_t>(kernels, what, {3, 3}) == 2);
    CHECK(reduce_one<std::int32_t>(kernels, what, {-3, -3}) == -2);
    what.scaling = {.pre = 1.0, .post = 0.5};
    CHECK(reduce_one<std::int32_t>(kernels, what, {3, 4}) == 3);
    what.scaling = {.pre = 2.0};
    CHECK(reduce_one<std::int32_t>(kernels, what, {kMaxInt32, 0}) == kMaxInt32);
    CHECK(reduce_one<std::int32_t>(kernels, what, {kMinInt32, 0}) == kMinInt32);
  });
}

TEST_CASE("reduce: bool takes any non-zero byte for true, gives 0 or 1, and is not scaled") {
  test::for_each_target([](const ReduceKernels& kernels) {
    const auto run = [&](ReduceOp op, std::vector<std::uint8_t> values) {
      return reduce_one<std::uint8_t>(
          kernels, {.dtype = DType::kBool, .op = op, .scaling = {.pre = 0.0, .post = 3.0}}, values);
    };
    CHECK(run(ReduceOp::kSum, {2, 0}) == 1);
    CHECK(run(ReduceOp::kSum, {0, 0}) == 0);
    CHECK(run(ReduceOp::kMin, {2, 1}) == 1);
    CHECK(run(ReduceOp::kProduct, {2, 0}) == 0);
    CHECK(run(ReduceOp::kBitAnd, {2, 1}) == 1);
    CHECK(run(ReduceOp::kBitXor, {2, 4}) == 0);
    CHECK(run(ReduceOp::kBitXor, {255, 0}) == 1);
    CHECK(run(ReduceOp::kMax, {7}) == 1);
  });
}

TEST_CASE("reduce: sums of 16-bit types are rounded once, not at every input") {
  test::for_each_target([](const ReduceKernels& kernels) {
    const Reduction what{.dtype = DType::kFloat16, .op = ReduceOp::kSum, .scaling = {}};
    const std::uint16_t big = float_to_float16(2048.0F);  // the next float16 is 2050
    const std::uint16_t one = float_to_float16(1.0F);
    CHECK(reduce_one<std::uint16_t>(kernels, what, {big, one, one}) == float_to_float16(2050.0F));
  });
}

TEST_CASE("reduce: nothing is written where there are no elements") {
  const auto kernels = create_kernels();
  const float in = 1.0F;
  float out = 5.0F;
  const void* inputs[] = {&in, &in};
  kernels->reduce({.dtype = DType::kFloat32, .op = ReduceOp::kSum, .scaling = {}}, inputs, &out, 0);
  CHECK(out == 5.0F);
}

TEST_CASE("reduce: an element's bits do not depend on its place in the array") {
  test::for_each_target([](const ReduceKernels& kernels) {
    const std::vector<float> a(131, 0.1F);
    const std::vector<float> b(131, 0.7F);
    std::vector<float> out(131);
    const void* inputs[] = {a.data(), b.data()};
    const Reduction what{
        .dtype = DType::kFloat32, .op = ReduceOp::kSum, .scaling = {.pre = 1.0 / 3.0, .post = 1.1}};
    kernels.reduce(what, inputs, out.data(), out.size());
    CHECK(out == std::vector<float>(131, out[0]));
    kernels.reduce_streaming(what, inputs, out.data() + 1, out.size() - 1);
    CHECK(out == std::vector<float>(131, out[0]));
  });
}

}  // namespace ronde
