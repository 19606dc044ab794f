#include "ops/algorithms.h"
#include "tests/ops/reduce/reduced.h"

namespace ronde::test {

TEST_CASE("direct_reduce: two steps, every rank but the root sends the tensor once") {
  for (const int ranks : {2, 3, 5, 8}) {
    for (const int root : {0, ranks - 1}) {
      const auto n = static_cast<std::size_t>(ranks);
      const auto traffic = counted_reduce(&direct_reduce, ranks, DType::kFloat16, n * 10, root);
      CHECK(steps(traffic) == 2);
      for (std::size_t r = 0; r < n; ++r) {
        CHECK(traffic[r].bytes == (static_cast<int>(r) == root ? (n - 1) * 20 : n * 20));
      }
    }
  }
}

TEST_CASE("direct_reduce: fewer elements than ranks") {
  counted_reduce(&direct_reduce, 5, DType::kInt64, 2, 3);
  counted_reduce(&direct_reduce, 5, DType::kInt64, 0, 3);
}

TEST_CASE("binomial_reduce: at most ceil(log2 n) steps, every rank but the root sends once") {
  for (const int ranks : {2, 3, 4, 6, 8, 11}) {
    for (const int root : {0, 1, ranks - 1}) {
      const auto traffic = counted_reduce(&binomial_reduce, ranks, DType::kFloat32, 100, root);
      CHECK(steps(traffic) <= ceil_log2(ranks));
      for (std::size_t r = 0; r < traffic.size(); ++r) {
        CHECK(traffic[r].bytes == (static_cast<int>(r) == root ? 0 : 400));
      }
    }
  }
}

TEST_CASE("binomial_reduce: exactly log2 n steps for a power of two") {
  CHECK(steps(counted_reduce(&binomial_reduce, 8, DType::kFloat32, 1, 3)) == 3);
}

TEST_CASE("binomial_reduce: partial sums of 16-bit types travel as fp32") {
  CHECK(total_bytes(counted_reduce(&binomial_reduce, 4, DType::kFloat16, 100, 2)) == 3 * 400);
}

}  // namespace ronde::test
