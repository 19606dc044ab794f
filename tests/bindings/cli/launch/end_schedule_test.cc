#include "bindings/cli/launch/end_schedule.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

using std::chrono::milliseconds;
using Step = EndSchedule::Step;
constexpr TimePoint kAsked{};

}  // namespace

TEST_CASE("end schedule: SIGTERM, then SIGKILL, then the agents are given up") {
  EndSchedule ending(milliseconds(100));
  CHECK(ending.deadline() == kForever);
  ending.terminate_at(kAsked + milliseconds(10));
  CHECK(ending.will_terminate());
  CHECK_FALSE(ending.due(kAsked));
  CHECK(ending.due(kAsked + milliseconds(10)) == Step::kTerminate);
  CHECK_FALSE(ending.will_terminate());
  CHECK_FALSE(ending.due(kAsked + milliseconds(10)));
  CHECK(ending.deadline() == kAsked + milliseconds(110));
  CHECK(ending.due(kAsked + milliseconds(110)) == Step::kKill);
  CHECK(ending.due(kAsked + milliseconds(210)) == Step::kGiveUp);
  CHECK(ending.deadline() == kForever);
}

TEST_CASE("end schedule: who was asked by a signal gets no SIGTERM, and is killed at a hurry") {
  EndSchedule ending(milliseconds(100));
  ending.hurry(kAsked);  // nobody was asked yet
  ending.terminate_at(kAsked + milliseconds(10));
  ending.on_asked(kAsked);
  ending.on_asked(kAsked + milliseconds(50));
  CHECK(ending.deadline() == kAsked + milliseconds(100));
  ending.hurry(kAsked + milliseconds(60));
  CHECK(ending.due(kAsked + milliseconds(60)) == Step::kKill);
}

TEST_CASE("end schedule: more time to save moves only the SIGKILL") {
  EndSchedule ending(milliseconds(100));
  ending.allow_until(kAsked + milliseconds(500));
  CHECK(ending.deadline() == kForever);
  ending.on_asked(kAsked);
  ending.allow_until(kAsked + milliseconds(500));
  ending.allow_until(kAsked + milliseconds(200));
  CHECK(ending.deadline() == kAsked + milliseconds(500));
}

}  // namespace ronde
