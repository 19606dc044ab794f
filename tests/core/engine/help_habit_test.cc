#include "core/engine/help_habit.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

int helped(HelpHabit& habit, int submissions, bool ended) {
  int count = 0;
  for (int i = 0; i < submissions; ++i) {
    if (!habit.wanted()) continue;
    ++count;
    habit.learn(ended);
  }
  return count;
}

TEST_CASE("HelpHabit: where it pays, every submission is helped") {
  HelpHabit habit;
  CHECK(helped(habit, 100, true) == 100);
}

TEST_CASE("HelpHabit: where it is in vain, one in 64 is helped in the end") {
  HelpHabit habit;
  CHECK(helped(habit, 1 + 3 + 7 + 15 + 31, false) == 5);
  helped(habit, 64, false);
  CHECK(helped(habit, 640, false) == 10);
}

TEST_CASE("HelpHabit: one success brings it back") {
  HelpHabit habit;
  helped(habit, 1000, false);
  while (!habit.wanted()) {
  }
  habit.learn(true);
  CHECK(helped(habit, 10, true) == 10);
}

}  // namespace
}  // namespace ronde
