// The order in which device work of all sets is launched: it travels in the global set's batches.
#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {

TEST_CASE("Member: launches of other sets reach all ranks in one order, until a rank leaves") {
  TestJob job(3);
  job.at(0).order_launch(7);
  job.at(0).order_launch(9);
  job.deliver();
  job.at(1).leave();
  job.deliver();
  job.at(0).order_launch(7);
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<Batch> batches;
    job.at(rank).take_batches(batches);
    REQUIRE(batches.size() == 2);
    CHECK(batches[0].launches == std::vector<std::uint64_t>{7, 9});
    CHECK(batches[1].launches.empty());
    CHECK(job.at(rank).closed());
  }
  CHECK(job.refused() == 0);
}

}  // namespace ronde
