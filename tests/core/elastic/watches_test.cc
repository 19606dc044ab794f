// The watches of an epoch: for changes of its workers, for suspects, and for whom others wait.
#include <doctest/doctest.h>

#include "core/elastic/change_watch.h"
#include "core/elastic/suspect_watch.h"
#include "core/elastic/wait_watch.h"

namespace ronde::elastic {
namespace {

using std::chrono::milliseconds;
using State = RosterWorker::State;

constexpr EpochId kEpoch = 3;
constexpr TimePoint kBegin{std::chrono::seconds(100)};

Roster members(int count) {
  Roster roster;
  for (int i = 0; i < count; ++i) roster.find(roster.add("a"))->state = State::kMember;
  return roster;
}

TEST_CASE("change watch: tells of a joiner once") {
  Roster roster = members(2);
  ChangeWatch watch;
  CHECK_FALSE(watch.due(roster, kEpoch, kBegin));
  roster.find(roster.add("a"))->state = State::kReady;
  CHECK(watch.due(roster, kEpoch, kBegin) == Change::kAdded);
  CHECK_FALSE(watch.due(roster, kEpoch, kBegin));
}

TEST_CASE("change watch: a joiner waits a moment for others that start") {
  Roster roster = members(2);
  ChangeWatch watch;
  roster.find(roster.add("a"))->state = State::kReady;
  roster.add("a");
  CHECK_FALSE(watch.due(roster, kEpoch, kBegin));
  CHECK(watch.since() == kBegin);
  CHECK_FALSE(watch.due(roster, kEpoch, kBegin + milliseconds(999)));
  CHECK(watch.due(roster, kEpoch, kBegin + ChangeWatch::kJoinWindow) == Change::kAdded);
}

TEST_CASE("change watch: leavers do not wait; both is mixed") {
  Roster roster = members(2);
  roster.find(1)->asked_to_leave = true;
  CHECK(ChangeWatch().due(roster, kEpoch, kBegin) == Change::kRemoved);
  roster.find(roster.add("a"))->state = State::kReady;
  CHECK(ChangeWatch().due(roster, kEpoch, kBegin) == Change::kMixed);
}

TEST_CASE("change watch: who alone could go on is not interrupted before others can") {
  Roster roster = members(1);
  roster.find(1)->surplus = true;
  const WorkerId joiner = roster.add("b");
  CHECK_FALSE(ChangeWatch().due(roster, kEpoch, kBegin));
  roster.find(joiner)->state = State::kReady;
  CHECK(ChangeWatch().due(roster, kEpoch, kBegin) == Change::kMixed);
  roster.remove(joiner);
  CHECK(ChangeWatch().due(roster, kEpoch, kBegin) == Change::kRemoved);
}

TEST_CASE("suspect watch: suspects have a grace, anew if another member is missing") {
  Roster roster = members(2);
  SuspectWatch watch;
  CHECK_FALSE(watch.due(roster, kBegin));
  watch.add({2});
  CHECK_FALSE(watch.due(roster, kBegin));  // 1 may compute
  CHECK(watch.since() == kForever);
  roster.find(1)->state = State::kReady;
  CHECK_FALSE(watch.due(roster, kBegin));
  CHECK(watch.since() == kBegin);
  CHECK(watch.due(roster, kBegin + SuspectWatch::kGrace));
}

TEST_CASE("wait watch: says once for whom the next epoch waits") {
  Roster roster = members(3);
  WaitWatch watch;
  CHECK_FALSE(watch.due(roster, kEpoch, false, kBegin));
  CHECK(watch.since() == kForever);
  CHECK_FALSE(watch.due(roster, kEpoch, true, kBegin));
  CHECK(watch.since() == kBegin);
  roster.find(1)->state = State::kReady;
  CHECK_FALSE(watch.due(roster, kEpoch, true, kBegin + milliseconds(9999)));
  CHECK(watch.due(roster, kEpoch, true, kBegin + WaitWatch::kLimit) ==
        "epoch 3 has ended, but workers 2 and 3 have not noticed for 10 s: the next epoch waits");
  CHECK(watch.since() == kForever);
  CHECK_FALSE(watch.due(roster, kEpoch, true, kBegin + std::chrono::hours(1)));
}

TEST_CASE("wait watch: names a few of many workers, and none where all are ready") {
  Roster roster = members(20);
  WaitWatch watch;
  CHECK_FALSE(watch.due(roster, kEpoch, true, kBegin));
  CHECK(watch.due(roster, kEpoch, true, kBegin + WaitWatch::kLimit)
            ->find("workers 1, 2, 3, 4, 5, 6, 7, 8 and 12 more have") != std::string::npos);
  Roster one = members(1);
  WaitWatch another;
  CHECK_FALSE(another.due(one, kEpoch, true, kBegin));
  CHECK(another.due(one, kEpoch, true, kBegin + WaitWatch::kLimit)->find("worker 1 has not") !=
        std::string::npos);
  one.find(1)->state = State::kReady;
  WaitWatch none;
  CHECK_FALSE(none.due(one, kEpoch, true, kBegin));
  CHECK_FALSE(none.due(one, kEpoch, true, kBegin + WaitWatch::kLimit));
}

}  // namespace
}  // namespace ronde::elastic
