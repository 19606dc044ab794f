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

}  // namespace ronde::test
