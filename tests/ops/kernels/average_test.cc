// Averages of 16-bit types as the executor asks for them: scaled down by a power of two before the
// sum, and by the rest after it.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "core/base/small_float.h"
#include "tests/ops/kernels/targets.h"

namespace ronde {
namespace {

Scaling average_of(unsigned ranks) {
  const double power = static_cast<double>(std::bit_ceil(ranks));
  return {.pre = 1.0 / power, .post = power / ranks};
}

void check_equal_values(DType dtype, float (*widen)(std::uint16_t)) {
  std::vector<std::uint16_t> patterns(65'536);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  test::for_each_target([&](const ReduceKernels& kernels) {
    for (const unsigned ranks : {2U, 3U, 5U, 8U, 33U, 63U, 64U}) {
      const std::vector<const void*> inputs(ranks, patterns.data());
      std::vector<std::uint16_t> out(patterns.size());
      kernels.reduce({.dtype = dtype, .op = ReduceOp::kSum, .scaling = average_of(ranks)}, inputs,
                     out.data(), out.size());
      int wrong = 0;
      for (const std::uint16_t bits : patterns) {
        const bool both_nan = std::isnan(widen(bits)) && std::isnan(widen(out[bits]));
        wrong += both_nan || out[bits] == bits ? 0 : 1;
      }
      INFO("ranks ", ranks);
      CHECK(wrong == 0);
    }
  });
}

/// Eight significands for each of the `exponents` lowest exponents, and infinity, of both signs.
template <typename T, typename Bits>
std::vector<T> values_of_every_exponent(int exponents, int significand_bits) {
  std::mt19937_64 random(1);
  std::vector<T> values;
  for (int exponent = 0; exponent < exponents; ++exponent) {
    for (int i = 0; i < 8; ++i) {
      const Bits tail =
          i == 0 ? 0 : static_cast<Bits>(random()) & ((Bits{1} << significand_bits) - 1);
      values.push_back(std::bit_cast<T>((static_cast<Bits>(exponent) << significand_bits) | tail));
      values.push_back(-values.back());
    }
  }
  values.push_back(std::numeric_limits<T>::infinity());
  return values;
}

/// Each value, held by all ranks, is its own mean, bit for bit.
template <typename T>
void check_equal_wide_values(DType dtype, const std::vector<T>& values) {
  test::for_each_target([&](const ReduceKernels& kernels) {
    for (const unsigned ranks : {2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
      const std::vector<const void*> inputs(ranks, values.data());
      std::vector<T> out(values.size());
      const Scaling average{.pre = 1.0, .post = 1.0 / ranks};
      kernels.reduce({.dtype = dtype, .op = ReduceOp::kSum, .scaling = average}, inputs, out.data(),
                     out.size());
      INFO("ranks ", ranks);
      const bool same = std::memcmp(out.data(), values.data(), values.size() * sizeof(T)) == 0;
      CHECK(same);
    }
  });
}

}  // namespace

TEST_CASE("average: float32 values of every exponent held by all ranks are their own mean") {
  auto values = values_of_every_exponent<float, std::uint32_t>(251, 23);
  check_equal_wide_values(DType::kFloat32, values);
}

TEST_CASE("average: float64 values of every exponent held by all ranks are their own mean") {
  auto values = values_of_every_exponent<double, std::uint64_t>(2043, 52);
  check_equal_wide_values(DType::kFloat64, values);
}

TEST_CASE(
    "average: the mean of two float32 is rounded once, whether their sum is tiny or too large") {
  auto values = values_of_every_exponent<float, std::uint32_t>(255, 23);
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  values.push_back(-0.0F);
  const std::size_t count = values.size();
  test::for_each_target([&](const ReduceKernels& kernels) {
    for (const std::size_t shift : {1UL, 2UL, 3UL, 16UL, 17UL, 500UL, 2000UL}) {
      std::vector<float> others(count);
      for (std::size_t i = 0; i < count; ++i) others[i] = values[(i + shift) % count];
      std::vector<float> out(count);
      const void* inputs[] = {values.data(), others.data()};
      kernels.reduce({.dtype = DType::kFloat32, .op = ReduceOp::kSum, .scaling = {1.0, 0.5}},
                     inputs, out.data(), count);
      int wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const auto want = static_cast<float>((double{values[i]} + double{others[i]}) / 2);
        const bool same = std::isnan(want) ? std::isnan(out[i])
                                           : std::bit_cast<std::uint32_t>(out[i]) ==
                                                 std::bit_cast<std::uint32_t>(want);
        wrong += same ? 0 : 1;
      }
      INFO("shift ", shift);
      CHECK(wrong == 0);
    }
  });
}

/// The place for the mean of two inputs, and one element whose sum overflows.
struct MeanCase {
  std::size_t count;
  std::size_t large;  // count: none
  int to;             // 0 and 1: over that input; 2: apart; 3: apart, streamed
};

int wrong_means(const ReduceKernels& kernels, const MeanCase& what) {
  std::vector<float> values[3];
  for (auto& some : values) some.resize(what.count + 1);
  std::vector<float> want(what.count);
  for (std::size_t i = 0; i < what.count; ++i) {
    values[0][i + 1] = i == what.large ? 3e38F : static_cast<float>(i) + 0.25F;
    values[1][i + 1] = i == what.large ? 2.5e38F : static_cast<float>(3 * i);
    want[i] = static_cast<float>((double{values[0][i + 1]} + double{values[1][i + 1]}) / 2);
  }
  float* const out = values[std::min(what.to, 2)].data() + 1;  // not aligned to a vector
  const void* inputs[] = {values[0].data() + 1, values[1].data() + 1};
  const Reduction mean{.dtype = DType::kFloat32, .op = ReduceOp::kSum, .scaling = {1.0, 0.5}};
  if (what.to == 3) {
    kernels.reduce_streaming(mean, inputs, out, what.count);
  } else {
    kernels.reduce(mean, inputs, out, what.count);
  }
  int wrong = 0;
  for (std::size_t i = 0; i < what.count; ++i) wrong += out[i] == want[i] ? 0 : 1;
  return wrong;
}

TEST_CASE("average: means of two float32 are right in place and apart, wherever a sum overflows") {
  test::for_each_target([](const ReduceKernels& kernels) {
    for (const std::size_t count : {1UL, 3UL, 4UL, 16UL, 17UL, 64UL, 79UL, 130UL, 257UL}) {
      for (const std::size_t large : {std::size_t{0}, count / 2, count - 1, count}) {
        for (int to = 0; to < 4; ++to) {
          CAPTURE(count);
          CAPTURE(large);
          CAPTURE(to);
          CHECK(wrong_means(kernels, {count, large, to}) == 0);
        }
      }
    }
  });
}

TEST_CASE("average: every float16 value held by all ranks is its own mean") {
  check_equal_values(DType::kFloat16, float16_to_float);
}

TEST_CASE("average: every bfloat16 value held by all ranks is its own mean") {
  check_equal_values(DType::kBfloat16, bfloat16_to_float);
}

TEST_CASE("average: of float32 and float64 is the sum divided, not times a rounded reciprocal") {
  std::vector<float> sums(3000);
  std::iota(sums.begin(), sums.end(), -1500.0F);
  const void* inputs[] = {sums.data()};
  test::for_each_target([&](const ReduceKernels& kernels) {
    for (const float ranks : {3.0F, 5.0F, 7.0F, 49.0F}) {
      std::vector<float> out(sums.size());
      const Scaling average{.pre = 1.0, .post = 1.0 / double{ranks}};
      kernels.reduce({.dtype = DType::kFloat32, .op = ReduceOp::kSum, .scaling = average}, inputs,
                     out.data(), out.size());
      int wrong = 0;
      for (std::size_t i = 0; i < sums.size(); ++i) wrong += out[i] == sums[i] / ranks ? 0 : 1;
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("average: of integers is rounded towards zero and never overflows") {
  const std::vector<std::vector<std::int8_t>> ranks = {
      {127, -128, 7, -7, 100}, {127, -128, 0, 0, 100}, {127, -128, 1, -1, -101}};
  std::vector<const void*> inputs;
  inputs.reserve(ranks.size());
  for (const auto& values : ranks) inputs.push_back(values.data());
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::vector<std::int8_t> out(5);
    const Scaling average{.pre = 1.0, .post = std::nextafter(1.0 / 3, 1.0)};
    kernels.reduce({.dtype = DType::kInt8, .op = ReduceOp::kSum, .scaling = average}, inputs,
                   out.data(), out.size());
    CHECK(out == std::vector<std::int8_t>{127, -128, 2, -2, 33});
  });
}

TEST_CASE("average: float16 60000 and 65504 do not overflow on the way to their mean") {
  const std::uint16_t a = float_to_float16(60'000.0F);
  const std::uint16_t b = float_to_float16(65'504.0F);
  const void* inputs[] = {&a, &b};
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::uint16_t out = 0;
    kernels.reduce({.dtype = DType::kFloat16, .op = ReduceOp::kSum, .scaling = average_of(2)},
                   inputs, &out, 1);
    CHECK(float16_to_float(out) == float16_to_float(float_to_float16(62'752.0F)));
  });
}

}  // namespace ronde
