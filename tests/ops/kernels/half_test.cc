// Every pattern of the 16-bit floating types, on every instruction set.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/small_float.h"
#include "tests/ops/kernels/reference.h"
#include "tests/ops/kernels/targets.h"

namespace ronde {
namespace {

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(65'536);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  return patterns;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

void check_widening(DType dtype, float (*reference)(std::uint16_t)) {
  const auto patterns = all_patterns();
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::vector<float> wide(patterns.size());
    kernels.cast(dtype, patterns.data(), DType::kFloat32, wide.data(), wide.size());
    int wrong = 0;
    for (const std::uint16_t bits : patterns) wrong += same(wide[bits], reference(bits)) ? 0 : 1;
    CHECK(wrong == 0);
  });
}

/// Floats over the whole range of bit patterns, and those around every tie between two halves.
std::vector<float> telling_floats(float (*widen)(std::uint16_t)) {
  std::vector<float> floats;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 39'769) {
    floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (std::uint32_t bits = 0; bits < 65'535; ++bits) {
    const float low = widen(static_cast<std::uint16_t>(bits));
    const float high = widen(static_cast<std::uint16_t>(bits + 1));
    const float tie = low + (high - low) / 2.0F;
    for (const std::uint32_t nudge : {0xffffffffU, 0U, 1U}) {
      floats.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(tie) + nudge));
    }
  }
  return floats;
}

void check_narrowing(DType dtype, float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float)) {
  const auto floats = telling_floats(widen);
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::vector<std::uint16_t> halves(floats.size());
    kernels.cast(DType::kFloat32, floats.data(), dtype, halves.data(), halves.size());
    int wrong = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) wrong += halves[i] == narrow(floats[i]) ? 0 : 1;
    CHECK(wrong == 0);
  });
}

/// Around every tie between two halves, nearer than fp32 can tell; and what no half holds.
std::vector<double> telling_doubles(float (*widen)(std::uint16_t)) {
  std::vector<double> doubles = {1e300, -1e300, 1e-300, -1e-300, 0x1p-149, 0x1p-150, -0x1p-151};
  for (std::uint32_t bits = 0; bits < 65'535; ++bits) {
    const double low = double{widen(static_cast<std::uint16_t>(bits))};
    const double high = double{widen(static_cast<std::uint16_t>(bits + 1))};
    const double tie = low + (high - low) / 2;
    doubles.push_back(tie);
    for (const double to : {low, high}) doubles.push_back(std::nextafter(tie, to));
  }
  return doubles;
}

void check_doubles(DType dtype, float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float)) {
  const auto doubles = telling_doubles(widen);
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::vector<std::uint16_t> halves(doubles.size());
    kernels.cast(DType::kFloat64, doubles.data(), dtype, halves.data(), halves.size());
    std::vector<double> back(halves.size());
    kernels.cast(dtype, halves.data(), DType::kFloat64, back.data(), back.size());
    int wrong = 0;
    for (std::size_t i = 0; i < doubles.size(); ++i) {
      const std::uint16_t want = narrow(round_to_odd(doubles[i]));
      const bool is_nan = std::isnan(doubles[i]);
      const bool right = is_nan ? std::isnan(widen(halves[i])) : halves[i] == want;
      const bool returned = is_nan ? std::isnan(back[i]) : back[i] == double{widen(halves[i])};
      wrong += right && returned ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
}

/// Adds every pattern to another one, and compares with the scalar sum.
void check_sums(DType dtype, float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float)) {
  const auto a = all_patterns();
  std::vector<std::uint16_t> b(a);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::uint16_t>(i * 40'503U + 1U);
  const void* inputs[] = {a.data(), b.data()};
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::vector<std::uint16_t> out(a.size());
    kernels.reduce({.dtype = dtype, .op = ReduceOp::kSum, .scaling = {}}, inputs, out.data(),
                   out.size());
    int wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float want = widen(narrow(widen(a[i]) + widen(b[i])));
      wrong += same(widen(out[i]), want) ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
}

void check_accumulation(DType dtype, float (*widen)(std::uint16_t), std::size_t count) {
  const auto in = all_patterns();
  std::vector<float> partial(count, 0.37F);
  test::for_each_target([&](const ReduceKernels& kernels) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      const Reduction what{.dtype = dtype, .op = op, .scaling = {.pre = 0.3, .post = 100.0}};
      std::vector<float> out(partial);
      kernels.accumulate_fp32(what, out.data(), in.data(), out.data(), count);
      int wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const float want = test::combine_floats(op, partial[i], 0.3F * widen(in[i]));
        wrong += same(out[i], want) ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  });
}

}  // namespace

TEST_CASE("cast: all 65,536 float16 patterns widen as core/base/small_float.h says") {
  check_widening(DType::kFloat16, float16_to_float);
}

TEST_CASE("cast: all 65,536 bfloat16 patterns widen as core/base/small_float.h says") {
  check_widening(DType::kBfloat16, bfloat16_to_float);
}

TEST_CASE(
    "cast: fp32 is rounded to float16 as core/base/small_float.h says, ties and NaN included") {
  check_narrowing(DType::kFloat16, float16_to_float, float_to_float16);
}

TEST_CASE(
    "cast: fp32 is rounded to bfloat16 as core/base/small_float.h says, ties and NaN included") {
  check_narrowing(DType::kBfloat16, bfloat16_to_float, float_to_bfloat16);
}

TEST_CASE("cast: fp64 is rounded once to float16 and bfloat16, and comes back") {
  check_doubles(DType::kFloat16, float16_to_float, float_to_float16);
  check_doubles(DType::kBfloat16, bfloat16_to_float, float_to_bfloat16);
}

TEST_CASE("reduce: all 65,536 float16 patterns sum as in fp32, rounded once") {
  check_sums(DType::kFloat16, float16_to_float, float_to_float16);
}

TEST_CASE("reduce: all 65,536 bfloat16 patterns sum as in fp32, rounded once") {
  check_sums(DType::kBfloat16, bfloat16_to_float, float_to_bfloat16);
}

TEST_CASE("accumulate_fp32: all patterns, every operation, pre applied and post not, in place") {
  for (const std::size_t count : {0UL, 1UL, 7UL, 65'536UL}) {
    check_accumulation(DType::kFloat16, float16_to_float, count);
    check_accumulation(DType::kBfloat16, bfloat16_to_float, count);
  }
}

}  // namespace ronde
