#include "ops/algorithms.h"
#include "tests/ops/moved.h"

namespace ronde::test {

TEST_CASE("binomial_broadcast: ceil(log2 n) steps, each rank gets the bytes once") {
  for (const int ranks : {2, 3, 4, 6, 8, 11}) {
    for (const int root : {0, 1, ranks - 1}) {
      const auto traffic = counted_broadcast(&binomial_broadcast, ranks, 1000, root);
      CHECK(total_bytes(traffic) == static_cast<std::size_t>(ranks - 1) * 1000);
      CHECK(steps(traffic) <= ceil_log2(ranks));
      CHECK(traffic[static_cast<std::size_t>(root)].messages ==
            static_cast<std::size_t>(ceil_log2(ranks)));
    }
  }
}

}  // namespace ronde::test
