#include "core/engine/gather_habit.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

int gatherings(GatherHabit& habit, int turns, std::size_t gathered) {
  int wanted = 0;
  for (int turn = 0; turn < turns; ++turn) {
    if (!habit.wanted(1)) continue;
    ++wanted;
    habit.learn(gathered);
  }
  return wanted;
}

TEST_CASE("GatherHabit: bursts, and what callers take over, are waited for every time") {
  GatherHabit habit;
  CHECK(gatherings(habit, 100, 7) == 100);
  CHECK(gatherings(habit, 100, 0) == 100);
}

TEST_CASE("GatherHabit: what comes one at a time is waited for once in eight times") {
  GatherHabit habit;
  CHECK(gatherings(habit, 81, 1) == 11);
}

TEST_CASE("GatherHabit: a burst that is seen, or found when gathering to see, brings it back") {
  GatherHabit habit;
  habit.learn(1);
  CHECK_FALSE(habit.wanted(1));
  CHECK(habit.wanted(2));
  habit.learn(5);
  CHECK(habit.wanted(1));
}

}  // namespace
}  // namespace ronde
