#include "ops/partial.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/base/small_float.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

// ((a then b) then c), each step at another rank, over the partial's representation.
template <typename T>
std::vector<T> chain(const Reduction& what, const std::vector<T>& a, const std::vector<T>& b,
                     const std::vector<T>& c) {
  const auto kernels = plain_kernels();
  const PartialReduction partial(what, *kernels);
  std::vector<std::byte> carried(a.size() * partial.width());
  partial.load(a.data(), carried.data(), a.size());
  partial.fold(carried.data(), b.data(), carried.data(), a.size());
  std::vector<T> out(a.size());
  partial.finish_fold(carried.data(), c.data(), out.data(), a.size());
  return out;
}

}  // namespace

TEST_CASE("PartialReduction: plain sums need no conversion") {
  const auto kernels = plain_kernels();
  const PartialReduction partial({DType::kFloat32, ReduceOp::kSum, {1.0, 0.5}}, *kernels);
  CHECK(partial.raw_is_partial());
  CHECK(partial.width() == 4);
  CHECK(chain<float>({DType::kFloat32, ReduceOp::kSum, {1.0, 0.5}}, {1}, {2}, {5}) ==
        std::vector<float>{4});
}

TEST_CASE("PartialReduction: prescale is applied to each input once, postscale to the sum once") {
  const std::vector<std::int32_t> threes(3000, 3);
  const auto out =
      chain<std::int32_t>({DType::kInt32, ReduceOp::kSum, {0.5, 0.5}}, threes, threes, threes);
  CHECK(out == std::vector<std::int32_t>(3000, 1));  // 3 * 0.5 -> 1 on each; 3 * 0.5 -> 1
  CHECK(chain<double>({DType::kFloat64, ReduceOp::kSum, {2, 3}}, {1}, {1}, {1}) ==
        std::vector<double>{18});
}

TEST_CASE("PartialReduction: averages of narrow integers do not overflow, sums wrap") {
  const std::vector<std::int8_t> most(2000, 127);
  const Reduction average{DType::kInt8, ReduceOp::kSum, {1.0, 1.0 / 3}};
  CHECK(chain<std::int8_t>(average, most, most, most) == most);
  CHECK(chain<std::int8_t>({DType::kInt8, ReduceOp::kSum, {1.0, 2.0 / 3}}, most, most, most) ==
        most);
  CHECK(chain<std::int8_t>({DType::kInt8, ReduceOp::kSum, {0.5, 1.0 / 3}}, most, most, most) ==
        std::vector<std::int8_t>(2000, 63));
  CHECK(chain<std::int8_t>({DType::kInt8, ReduceOp::kSum, {}}, most, most, most) ==
        std::vector<std::int8_t>(2000, 125));  // 381 modulo 256
}

TEST_CASE("PartialReduction: averages of 32-bit integers do not overflow, sums wrap") {
  const std::vector<std::int32_t> least(2000, INT32_MIN);
  const Reduction average{DType::kInt32, ReduceOp::kSum, {1.0, 1.0 / 3}};
  CHECK(chain<std::int32_t>(average, least, least, least) == least);
  CHECK(chain<std::int32_t>({DType::kInt32, ReduceOp::kSum, {}}, least, least, least) == least);
  const std::vector<std::uint32_t> most(2000, UINT32_MAX);
  CHECK(chain<std::uint32_t>({DType::kUint32, ReduceOp::kSum, {1.0, 1.0 / 3}}, most, most, most) ==
        most);
  CHECK(chain<std::uint32_t>({DType::kUint32, ReduceOp::kSum, {0.5, 2.0}}, most, most, most) ==
        most);  // saturates
  CHECK(chain<std::uint32_t>({DType::kUint32, ReduceOp::kSum, {}}, most, most, most) ==
        std::vector<std::uint32_t>(2000, UINT32_MAX - 2));  // modulo 2^32
}

TEST_CASE("PartialReduction: 16-bit partials keep fp32 and are rounded once") {
  const std::uint16_t one = float_to_bfloat16(1);
  const std::uint16_t small = float_to_bfloat16(1.0F / 256);
  const auto kernels = plain_kernels();
  const PartialReduction partial({DType::kBfloat16, ReduceOp::kSum, {}}, *kernels);
  CHECK(partial.width() == 4);
  CHECK_FALSE(partial.raw_is_partial());
  // bfloat16 has steps of 1/128 above 1: rounded at each hop, 1/256 would be lost twice.
  const auto out =
      chain<std::uint16_t>({DType::kBfloat16, ReduceOp::kSum, {}}, {one}, {small}, {small});
  CHECK(bfloat16_to_float(out[0]) == 1 + 1.0F / 128);
}

TEST_CASE("PartialReduction: every pair of equal float16 values averages to itself") {
  std::vector<std::uint16_t> all;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7c00U) != 0x7c00U) all.push_back(static_cast<std::uint16_t>(bits));
  }
  const auto kernels = plain_kernels();
  const PartialReduction partial({DType::kFloat16, ReduceOp::kSum, {0.5, 1.0}}, *kernels);
  std::vector<float> carried(all.size());
  std::vector<std::uint16_t> out(all.size());
  partial.load(all.data(), carried.data(), all.size());
  partial.finish_fold(carried.data(), all.data(), out.data(), all.size());
  CHECK(out == all);
}

}  // namespace ronde::test
