#include "ops/algorithms.h"
#include "tests/ops/allreduce/counted_allreduce.h"

namespace ronde::test {

TEST_CASE("halving_doubling_allreduce: 2(n-1)/n of the bytes in 2 log2 n steps") {
  for (const int ranks : {2, 4, 8, 16}) {
    const auto n = static_cast<std::size_t>(ranks);
    const auto traffic =
        counted_allreduce(&halving_doubling_allreduce, ranks, DType::kFloat64, n * 64);
    for (const Traffic& rank : traffic) CHECK(rank.bytes == 2 * (n - 1) * 64 * 8);
    CHECK(steps(traffic) == 2 * ceil_log2(ranks));
  }
}

TEST_CASE("halving_doubling_allreduce: two more steps where n is no power of two") {
  for (const int ranks : {3, 5, 6, 7, 9}) {
    const auto traffic = counted_allreduce(&halving_doubling_allreduce, ranks, DType::kInt32, 999);
    const int core_steps = ceil_log2(ranks) - 1;
    CHECK(steps(traffic) == 2 * core_steps + 2);
    CHECK(traffic.back().bytes == 999 * 4);
  }
}

TEST_CASE("halving_doubling_allreduce: fewer elements than ranks") {
  for (const std::size_t count : {0U, 1U, 3U}) {
    counted_allreduce(&halving_doubling_allreduce, 8, DType::kFloat16, count);
  }
}

}  // namespace ronde::test
