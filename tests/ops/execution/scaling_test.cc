#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "ops/execution/output_planner.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {

TEST_CASE("reduction_for: factors of other operations pass through") {
  const Reduction product = reduction_for({DType::kFloat32, ReduceOp::kProduct, 2.0, 3.0}, 7);
  CHECK(product.op == ReduceOp::kProduct);
  CHECK(product.scaling.pre == 2.0);
  CHECK(product.scaling.post == 3.0);
}

TEST_CASE("reduction_for: the factor on a float32 sum is a float32 where it is no divisor") {
  const auto post = [](DType dtype, double factor) {
    return reduction_for({dtype, ReduceOp::kSum, 1.0, factor}, 4).scaling.post;
  };
  CHECK(post(DType::kFloat32, 0.1915194503788923) == 0.1915194503788923F);
  CHECK(post(DType::kFloat64, 0.1915194503788923) == 0.1915194503788923);
  CHECK(post(DType::kFloat32, 1.0 / 3.0) == 1.0 / 3.0);
  CHECK(post(DType::kFloat32, 1e300) == 1e300);  // as a float32 it would be infinite
  CHECK(post(DType::kFloat32, -1e-60) == -1e-60);
}

TEST_CASE("reduction_for: an average of float32 divides after the sum") {
  const Reduction average = reduction_for({DType::kFloat32, ReduceOp::kAverage, 2.0, 3.0}, 4);
  CHECK(average.op == ReduceOp::kSum);
  CHECK(average.scaling.pre == 2.0);
  CHECK(average.scaling.post == 0.75);
}

TEST_CASE("reduction_for: 8- and 16-bit averages shrink inputs by a power of two first") {
  for (const DType dtype :
       {DType::kFloat16, DType::kBfloat16, DType::kFloat8E4m3, DType::kFloat8E5m2}) {
    const Reduction average = reduction_for({dtype, ReduceOp::kAverage, 1.0, 1.0}, 5);
    CHECK(average.scaling.pre == 0.125);
    CHECK(average.scaling.post == 1.6);
  }
}

TEST_CASE("reduction_for: the integer average of equal values is that value, for any size") {
  const auto kernels = plain_kernels();
  for (int ranks = 1; ranks <= 2048; ++ranks) {
    const Reduction average = reduction_for({DType::kInt64, ReduceOp::kAverage, 1.0, 1.0}, ranks);
    for (const std::int64_t value : {1L, -1L, 3L, 1'000'003L}) {
      const std::int64_t sum = value * ranks;
      std::int64_t mean = 0;
      const void* in = &sum;
      kernels->reduce(average, std::array{in}, &mean, 1);
      if (mean != value) FAIL_CHECK(ranks << " ranks of " << value << " average to " << mean);
    }
  }
}

TEST_CASE("reduction_for: the integer average is truncated towards zero") {
  const auto kernels = plain_kernels();
  for (int ranks = 2; ranks <= 64; ++ranks) {
    const Reduction average = reduction_for({DType::kInt64, ReduceOp::kAverage, 1.0, 1.0}, ranks);
    for (std::int64_t sum = -300; sum <= 300; ++sum) {
      std::int64_t mean = 0;
      const void* in = &sum;
      kernels->reduce(average, std::array{in}, &mean, 1);
      if (mean != sum / ranks) FAIL_CHECK(sum << " / " << ranks << " gave " << mean);
    }
  }
}

}  // namespace ronde::test
