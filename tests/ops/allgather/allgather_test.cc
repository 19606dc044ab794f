#include "ops/algorithms.h"
#include "tests/ops/moved.h"

namespace ronde::test {

TEST_CASE("bruck_allgather: ceil(log2 n) steps, no byte twice to one rank") {
  for (const int ranks : {2, 3, 4, 5, 7, 8, 13}) {
    const auto parts = uneven_chunks(ranks, 7);
    const auto traffic = counted_gathering(&bruck_allgather, ranks, 7);
    const std::size_t all = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
    CHECK(total_bytes(traffic) == all * static_cast<std::size_t>(ranks - 1));
    CHECK(steps(traffic) == ceil_log2(ranks));
  }
}

TEST_CASE("bruck_allgather: empty parts") { counted_gathering(&bruck_allgather, 5, 0); }

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
