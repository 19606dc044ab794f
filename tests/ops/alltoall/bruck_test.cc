#include "ops/algorithms.h"
#include "tests/ops/exchanged.h"

namespace ronde::test {

TEST_CASE("bruck_alltoall: two messages for each bit of n-1") {
  for (const int ranks : {1, 2, 3, 4, 7, 8, 13}) {
    const auto traffic = counted_exchange(&bruck_alltoall, ranks, false);
    CHECK(steps(traffic) == 2 * ceil_log2(ranks));
    for (const Traffic& each : traffic) {
      CHECK(each.messages == static_cast<std::size_t>(2 * ceil_log2(ranks)));
    }
  }
}

TEST_CASE("bruck_alltoall: a block travels once for each bit of its way") {
  for (const int ranks : {2, 3, 4, 7, 13}) {
    std::size_t expected = 0;
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        const auto way = static_cast<unsigned>((to - from + ranks) % ranks);
        expected += static_cast<std::size_t>(std::popcount(way)) *
                    (bytes_exchanged(from, to) + sizeof(std::uint64_t));
      }
    }
    CHECK(total_bytes(counted_exchange(&bruck_alltoall, ranks, false)) == expected);
  }
}

TEST_CASE("bruck_alltoall: in place, no block is overwritten before it was sent") {
  for (const int ranks : {1, 2, 3, 4, 7}) counted_exchange(&bruck_alltoall, ranks, true);
}

}  // namespace ronde::test
