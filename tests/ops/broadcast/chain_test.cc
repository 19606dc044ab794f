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

}  // namespace ronde::test
