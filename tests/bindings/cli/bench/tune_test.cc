#include <doctest/doctest.h>

#include "bindings/cli/bench/worker.h"

namespace ronde::bench {

TEST_CASE("Tune: rows reach half way to the size that another algorithm won") {
  const std::vector<Winner> winners = {
      {1024, "tree"}, {4096, "tree"}, {16384, "ring"}, {65536, "ring"}};
  const auto rows = rows_of(Collective::kAllreduce, 4, winners);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].algorithm == "tree");
  CHECK(rows[0].max_bytes == 8192);
  CHECK(rows[0].max_ranks == 4);
  CHECK(rows[1].algorithm == "ring");
  CHECK(rows[1].max_bytes == SelectionRow{}.max_bytes);
}

TEST_CASE("Tune: an algorithm may win, lose and win again") {
  const std::vector<Winner> winners = {{1, "ring"}, {4, "tree"}, {16, "ring"}};
  CHECK(rows_of(Collective::kAllreduce, 2, winners).size() == 3);
  CHECK(rows_of(Collective::kAllreduce, 2, {}).empty());
}

TEST_CASE("Tune: it measures powers of two and all ranks") {
  CHECK(group_sizes(2) == std::vector<int>{2});
  CHECK(group_sizes(6) == std::vector<int>{2, 4, 6});
  CHECK(group_sizes(8) == std::vector<int>{2, 4, 8});
}

}  // namespace ronde::bench
