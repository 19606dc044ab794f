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

}  // namespace ronde::test
