#include "ops/algorithms.h"
#include "tests/ops/moved.h"

namespace ronde::test {

TEST_CASE("ring_allgather: n-1 steps; each rank sends all but its right neighbour's part") {
  for (const int ranks : {2, 3, 5, 8}) {
    const auto parts = uneven_chunks(ranks, 100);
    const auto traffic = counted_gathering(&ring_allgather, ranks, 100);
    const std::size_t all = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
    for (std::size_t r = 0; r < traffic.size(); ++r) {
      CHECK(traffic[r].bytes == all - parts[(r + 1) % parts.size()]);
    }
    CHECK(steps(traffic) == ranks - 1);
  }
}

TEST_CASE("ring_allgather: nothing to gather still synchronises") {
  CHECK(total_bytes(counted_gathering(&ring_allgather, 4, 0)) == 0);
}

}  // namespace ronde::test
