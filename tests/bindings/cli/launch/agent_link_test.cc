#include "bindings/cli/launch/agent_link.h"

#include <doctest/doctest.h>

#include <array>

namespace ronde {
namespace {

TEST_CASE("job hosts: ranks are named as people do, and only some where they are many") {
  CHECK(name_ranks({3}) == "rank 3");
  CHECK(name_ranks({0, 2}) == "ranks 0 and 2");
  CHECK(name_ranks({0, 2, 3}) == "ranks 0, 2 and 3");
  std::vector<int> many(64);
  for (int i = 0; i < 64; ++i) many[static_cast<std::size_t>(i)] = i;
  CHECK(name_ranks(many) == "ranks 0, 1, 2, 3 and 60 more");
}

TEST_CASE("job hosts: who still runs is told where others have ended") {
  const std::array<HostRanks, 2> ranks = {HostRanks{"", 0, 2}, HostRanks{"node1", 2, 2}};
  std::vector<Host> hosts(2);
  for (std::size_t i = 0; i < 2; ++i) hosts[i].ranks = &ranks[i];
  CHECK(still_running(hosts).empty());
  hosts[0].unfinished = {0};
  hosts[1].unfinished = {2, 3};
  CHECK(still_running(hosts) == "rank 1 has ended, ranks 0, 2 and 3 still run");
  hosts[1].unfinished.clear();
  CHECK(still_running(hosts) == "ranks 1, 2 and 3 have ended, rank 0 still runs");
  hosts[0].unfinished = {0, 1};
  hosts[1].unfinished = {2, 3};
  CHECK(still_running(hosts).empty());
}

}  // namespace

}  // namespace ronde
