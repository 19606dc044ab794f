#include "core/elastic/unreachable.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

const std::vector<std::string> kHosts{"a", "b", "c"};

/// One worker a host, ready after an epoch 2 that did not begin; they miss these workers.
Roster missing(const std::vector<std::vector<WorkerId>>& suspects) {
  Roster roster;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    RosterWorker& worker = *roster.find(roster.add(kHosts[i]));
    worker.state = RosterWorker::State::kReady;
    worker.ready.last_epoch = 2;
    worker.ready.suspects = suspects[i];
  }
  return roster;
}

using Names = std::vector<std::string>;

TEST_CASE("unreachable hosts: the one that misses most goes") {
  CHECK(unreachable_hosts(missing({{2}, {1, 3}, {2}}), kHosts, 2, Missing::kConnection) ==
        Names{"b"});
}

TEST_CASE("unreachable hosts: of two the last one goes") {
  CHECK(unreachable_hosts(missing({{2}, {1}, {}}), kHosts, 2, Missing::kConnection) == Names{"b"});
}

TEST_CASE("unreachable hosts: none if the ranks were connected, or in an older epoch") {
  Roster roster = missing({{2}, {1}, {}});
  CHECK(unreachable_hosts(roster, kHosts, 3, Missing::kConnection).empty());
  for (Roster::Entry& entry : roster) entry.second.ready.began = true;
  CHECK(unreachable_hosts(roster, kHosts, 2, Missing::kConnection).empty());
  CHECK(unreachable_hosts(roster, kHosts, 2, Missing::kLater) == Names{"b"});
}

TEST_CASE("unreachable hosts: workers that have ended count for nothing") {
  CHECK(unreachable_hosts(missing({{7}, {7}, {}}), kHosts, 2, Missing::kConnection).empty());
}

}  // namespace
}  // namespace ronde::elastic
