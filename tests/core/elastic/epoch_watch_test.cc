// The watch of an epoch: for changes of its workers, for suspects, and for whom others wait.
#include "core/elastic/epoch_watch.h"

#include <doctest/doctest.h>

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

TEST_CASE("epoch watch: tells of a joiner once") {
  Roster roster = members(2);
  EpochWatch watch;
  CHECK_FALSE(watch.change(roster, kEpoch, kBegin));
  roster.find(roster.add("a"))->state = State::kReady;
  CHECK(watch.change(roster, kEpoch, kBegin) == Change::kAdded);
  CHECK_FALSE(watch.change(roster, kEpoch, kBegin));
}

TEST_CASE("epoch watch: a joiner waits a moment for others that start") {
  Roster roster = members(2);
  EpochWatch watch;
  roster.find(roster.add("a"))->state = State::kReady;
  roster.add("a");
  CHECK_FALSE(watch.change(roster, kEpoch, kBegin));
  CHECK(watch.next_deadline(kBegin) == kBegin + EpochWatch::kJoinWindow);
  CHECK_FALSE(watch.change(roster, kEpoch, kBegin + milliseconds(999)));
  CHECK(watch.change(roster, kEpoch, kBegin + EpochWatch::kJoinWindow) == Change::kAdded);
}

TEST_CASE("epoch watch: leavers do not wait; both is mixed") {
  Roster roster = members(2);
  roster.find(1)->asked_to_leave = true;
  CHECK(EpochWatch().change(roster, kEpoch, kBegin) == Change::kRemoved);
  roster.find(roster.add("a"))->state = State::kReady;
  CHECK(EpochWatch().change(roster, kEpoch, kBegin) == Change::kMixed);
}

TEST_CASE("epoch watch: who alone could go on is not interrupted before others can") {
  Roster roster = members(1);
  roster.find(1)->surplus = true;
  const WorkerId joiner = roster.add("b");
  CHECK_FALSE(EpochWatch().change(roster, kEpoch, kBegin));
  roster.find(joiner)->state = State::kReady;
  CHECK(EpochWatch().change(roster, kEpoch, kBegin) == Change::kMixed);
  roster.remove(joiner);
  CHECK(EpochWatch().change(roster, kEpoch, kBegin) == Change::kRemoved);
}

TEST_CASE("epoch watch: suspects have a grace, anew if another member is missing") {
  Roster roster = members(2);
  EpochWatch watch;
  CHECK_FALSE(watch.suspects_are_lost(roster, kBegin));
  watch.suspect({2});
  CHECK_FALSE(watch.suspects_are_lost(roster, kBegin));  // 1 may compute
  CHECK(watch.next_deadline(kBegin) == kForever);
  roster.find(1)->state = State::kReady;
  CHECK_FALSE(watch.suspects_are_lost(roster, kBegin));
  CHECK(watch.next_deadline(kBegin) == kBegin + EpochWatch::kGrace);
  CHECK(watch.suspects_are_lost(roster, kBegin + EpochWatch::kGrace));
}

TEST_CASE("epoch watch: says once for whom the next epoch waits") {
  Roster roster = members(3);
  EpochWatch watch;
  CHECK_FALSE(watch.delay(roster, kEpoch, false, kBegin));
  CHECK(watch.next_deadline(kBegin) == kForever);
  CHECK_FALSE(watch.delay(roster, kEpoch, true, kBegin));
  CHECK(watch.next_deadline(kBegin) == kBegin + EpochWatch::kPatience);
  roster.find(1)->state = State::kReady;
  CHECK_FALSE(watch.delay(roster, kEpoch, true, kBegin + milliseconds(9999)));
  CHECK(watch.delay(roster, kEpoch, true, kBegin + EpochWatch::kPatience) ==
        "epoch 3 has ended, but workers 2 and 3 have not noticed for 10 s: the next epoch waits");
  CHECK(watch.next_deadline(kBegin) == kForever);
  CHECK_FALSE(watch.delay(roster, kEpoch, true, kBegin + std::chrono::hours(1)));
}

TEST_CASE("epoch watch: names a few of many workers, and none where all are ready") {
  Roster roster = members(20);
  EpochWatch watch;
  CHECK_FALSE(watch.delay(roster, kEpoch, true, kBegin));
  CHECK(watch.delay(roster, kEpoch, true, kBegin + EpochWatch::kPatience)
            ->find("workers 1, 2, 3, 4, 5, 6, 7, 8 and 12 more have") != std::string::npos);
  Roster one = members(1);
  EpochWatch another;
  CHECK_FALSE(another.delay(one, kEpoch, true, kBegin));
  CHECK(
      another.delay(one, kEpoch, true, kBegin + EpochWatch::kPatience)->find("worker 1 has not") !=
      std::string::npos);
  one.find(1)->state = State::kReady;
  EpochWatch none;
  CHECK_FALSE(none.delay(one, kEpoch, true, kBegin));
  CHECK_FALSE(none.delay(one, kEpoch, true, kBegin + EpochWatch::kPatience));
}

}  // namespace
}  // namespace ronde::elastic
