#include "core/elastic/roster.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

using State = RosterWorker::State;

/// Workers 1, 2 on "b" and 3 on "a", all ready.
Roster three() {
  Roster roster;
  for (const char* host : {"b", "b", "a"}) roster.add(host);
  for (Roster::Entry& entry : roster) entry.second.state = State::kReady;
  return roster;
}

std::vector<WorkerId> order(Roster& roster) {
  std::vector<WorkerId> ids;
  for (const Roster::Entry* entry : roster.ready_in_order({"a", "b"})) ids.push_back(entry->first);
  return ids;
}

TEST_CASE("roster: a number is never used again") {
  Roster roster = three();
  REQUIRE(roster.remove(3));
  CHECK_FALSE(roster.remove(3));
  CHECK(roster.find(3) == nullptr);
  CHECK(roster.add("a") == 4);
  roster.remove_host("b");
  CHECK(roster.count_on("b") == 0);
  CHECK(roster.count_on("a") == 1);
}

TEST_CASE("roster: those that hold the state come first, in their old order") {
  Roster roster = three();
  CHECK(order(roster) == std::vector<WorkerId>{3, 1, 2});
  roster.find(1)->last_rank = 1;
  roster.find(2)->last_rank = 0;
  CHECK(order(roster) == std::vector<WorkerId>{2, 1, 3});
  roster.find(1)->holds_state = true;
  CHECK(order(roster) == std::vector<WorkerId>{1, 2, 3});
  roster.find(2)->state = State::kMember;
  CHECK(order(roster) == std::vector<WorkerId>{1, 3});
}

TEST_CASE("roster: the newest workers of a host are surplus, until others make room") {
  Roster roster = three();
  const auto one = [](const std::string&) { return 1; };
  roster.mark_surplus(one);
  CHECK(roster.find(2)->surplus);
  CHECK_FALSE(roster.find(1)->surplus);
  CHECK(roster.count_staying() == 2);
  roster.find(1)->asked_to_leave = true;
  roster.mark_surplus(one);
  CHECK_FALSE(roster.find(2)->surplus);
}

TEST_CASE("roster: members among suspects") {
  Roster roster = three();
  CHECK_FALSE(roster.members_are_among({1, 2, 3}));  // there are none
  roster.find(1)->state = roster.find(2)->state = State::kMember;
  CHECK(roster.members() == std::vector<WorkerId>{1, 2});
  CHECK(roster.members_are_among({1, 2}));
  CHECK_FALSE(roster.members_are_among({1}));
}

TEST_CASE("roster: the newest state of workers that stay") {
  Roster roster = three();
  CHECK(roster.newest_that_stays() == kNoCopy);
  roster.find(2)->inherited = 7;
  CHECK(roster.newest_that_stays() == 7);
  roster.find(1)->holds_state = true;
  CHECK(roster.newest_that_stays() > 7);
  roster.find(1)->asked_to_leave = true;
  CHECK(roster.newest_that_stays() == 7);
}

}  // namespace
}  // namespace ronde::elastic
