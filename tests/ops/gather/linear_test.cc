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

TEST_CASE("linear_scatter: one step, the root sends what is not its own") {
  const int ranks = 5;
  const auto parts = uneven_chunks(ranks, 50);
  const Bytes all = joined_chunks(parts);
  for (const int root : {0, 3}) {
    const auto traffic = count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
      const auto kernels = plain_kernels();
      const AbortToken abort;
      const int me = transport.rank();
      Bytes out(parts[static_cast<std::size_t>(me)]);
      FlatWork work = moving(*kernels, abort);
      work.root = root;
      work.in = me == root ? all.data() : nullptr;
      work.out = out.data();
      work.bytes = all.size();
      work.chunk_bytes = parts;
      CHECK(linear_scatter(transport, work, scratch).ok());
      CHECK(compare_bytes(out, part_of(all, parts, me)) == "");
    });
    const auto at_root = static_cast<std::size_t>(root);
    CHECK(traffic[at_root].bytes == all.size() - parts[at_root]);
    CHECK(total_bytes(traffic) == traffic[at_root].bytes);
    CHECK(steps(traffic) == 1);
  }
}

}  // namespace ronde::test
