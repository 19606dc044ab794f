#include "ops/algorithms.h"
#include "tests/ops/reduce_scatter/scattered.h"

namespace ronde::test {
TEST_CASE("ring_reduce_scatter: n-1 steps; each rank sends all but its own part") {
  for (const int ranks : {2, 3, 5, 8}) {
    const auto parts = uneven_chunks(ranks, 100 * 4);
    const auto traffic = counted_scattering(&ring_reduce_scatter, ranks, 100, false);
    const std::size_t all = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
    for (std::size_t r = 0; r < traffic.size(); ++r) CHECK(traffic[r].bytes == all - parts[r]);
    CHECK(steps(traffic) == ranks - 1);
  }
}

TEST_CASE("ring_reduce_scatter: in place, in many slices") {
  counted_scattering(&ring_reduce_scatter, 3, 1, true);
  counted_scattering(&ring_reduce_scatter, 3, 150'001, true);
}

}  // namespace ronde::test
