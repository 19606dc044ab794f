#include "ops/algorithms.h"
#include "tests/ops/moved.h"

namespace ronde::test {

TEST_CASE("dissemination_barrier: every rank hears of all others in ceil(log2 n) steps") {
  for (const int ranks : {2, 3, 4, 5, 8, 9}) {
    const auto traffic = count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
      const auto kernels = plain_kernels();
      const AbortToken abort;
      CHECK(dissemination_barrier(transport, moving(*kernels, abort), scratch).ok());
    });
    for (const Traffic& rank : traffic) {
      CHECK(rank.steps == ceil_log2(ranks));
      CHECK(rank.messages == static_cast<std::size_t>(ceil_log2(ranks)));
      CHECK(rank.bytes == 0);
    }
  }
}

}  // namespace ronde::test
