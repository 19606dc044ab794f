#include <doctest/doctest.h>

#include "bindings/cli/launch/elastic/workers.h"

namespace ronde {

TEST_CASE("worker table: knows the workers that have not ended, and their hosts") {
  WorkerTable table;
  CHECK(table.empty());
  table.add(1, "a");
  table.add(2, "b");
  REQUIRE(table.find(2) != nullptr);
  CHECK(table.find(2)->host == "b");
  CHECK(table.find(3) == nullptr);
  CHECK(table.any_on("b"));
  CHECK_FALSE(table.take_removed());
  table.remove(2);
  CHECK(table.take_removed());
  CHECK_FALSE(table.take_removed());
  CHECK_FALSE(table.any_on("b"));
  CHECK(table.find(2) == nullptr);
}

TEST_CASE("worker table: forgets those of a host, and those that have not started") {
  WorkerTable table;
  for (const elastic::WorkerId id : {1U, 2U, 3U}) table.add(id, id == 3 ? "b" : "a");
  table.find(1)->pid = 17;
  table.find(3)->pid = 18;
  table.remove_unstarted();
  CHECK(table.find(2) == nullptr);
  table.remove_host("b");
  CHECK(table.find(3) == nullptr);
  CHECK(table.find(1) != nullptr);
}

}  // namespace ronde
