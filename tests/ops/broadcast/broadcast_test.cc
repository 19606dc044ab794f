#include "ops/algorithms.h"
#include "tests/ops/moved.h"

namespace ronde::test {

TEST_CASE("chain_broadcast: every rank but the last sends the bytes once, in pieces") {
  const std::size_t bytes = (std::size_t{1} << 20) + 17;
  for (const int root : {0, 2}) {
    const auto traffic = counted_broadcast(&chain_broadcast, 4, bytes, root);
    for (std::size_t r = 0; r < traffic.size(); ++r) {
      const bool last = static_cast<int>(r) == (root + 3) % 4;
      CHECK(traffic[r].bytes == (last ? 0 : bytes));
      CHECK(traffic[r].messages == (last ? 0 : 5));
    }
    CHECK(steps(traffic) == 3);
  }
}

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
