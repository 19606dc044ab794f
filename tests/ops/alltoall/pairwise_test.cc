#include "ops/algorithms.h"
#include "tests/ops/exchanged.h"

namespace ronde::test {

TEST_CASE("pairwise_alltoall: n-1 messages, and only what is meant for others") {
  for (const int ranks : {2, 3, 4, 7}) {
    const auto traffic = counted_exchange(&pairwise_alltoall, ranks, false);
    for (int rank = 0; rank < ranks; ++rank) {
      std::size_t bytes = 0;
      for (int to = 0; to < ranks; ++to) bytes += to == rank ? 0 : bytes_exchanged(rank, to);
      CHECK(traffic[static_cast<std::size_t>(rank)].bytes == bytes);
      CHECK(traffic[static_cast<std::size_t>(rank)].messages ==
            static_cast<std::size_t>(ranks - 1));
    }
  }
}

TEST_CASE("pairwise_alltoall: in place, no block is overwritten before it was sent") {
  for (const int ranks : {2, 3, 4, 7}) counted_exchange(&pairwise_alltoall, ranks, true);
}

}  // namespace ronde::test
