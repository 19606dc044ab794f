#include "ops/algorithms.h"
#include "tests/ops/allreduce/counted_allreduce.h"

namespace ronde::test {

TEST_CASE("tree_allreduce: 2 ceil(log2 n) steps, the tensor once up and once down each edge") {
  for (const int ranks : {2, 3, 4, 5, 8, 13}) {
    const auto traffic = counted_allreduce(&tree_allreduce, ranks, DType::kFloat32, 10);
    CHECK(steps(traffic) <= 2 * ceil_log2(ranks));
    CHECK(total_bytes(traffic) == 2 * static_cast<std::size_t>(ranks - 1) * 40);
  }
}

TEST_CASE("tree_allreduce: steps are exactly 2 log2 n for a power of two") {
  CHECK(steps(counted_allreduce(&tree_allreduce, 8, DType::kFloat32, 1)) == 6);
}

}  // namespace ronde::test
