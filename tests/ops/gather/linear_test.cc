#include "ops/algorithms.h"
#include "tests/ops/moved.h"

namespace ronde::test {

TEST_CASE("linear_gather: one step, every part travels once") {
  for (const int ranks : {2, 3, 8}) {
    for (const int root : {0, ranks - 1}) {
      const auto parts = uneven_chunks(ranks, 50);
      const auto traffic = counted_gathering(&linear_gather, ranks, 50, root);
      CHECK(steps(traffic) == 1);
      for (std::size_t r = 0; r < traffic.size(); ++r) {
        CHECK(traffic[r].bytes == (static_cast<int>(r) == root ? 0 : parts[r]));
      }
    }
  }
}

}  // namespace ronde::test
