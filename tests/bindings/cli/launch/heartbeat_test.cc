#include <doctest/doctest.h>

#include "bindings/cli/launch/event_loop.h"

namespace ronde {
namespace {

constexpr TimePoint kBegin{std::chrono::seconds(100)};

}  // namespace

TEST_CASE("heartbeat: sends signs of life from the start on, at intervals") {
  Heartbeat heart;
  CHECK(heart.deadline() == kForever);
  CHECK_FALSE(heart.due(kBegin));
  heart.start(kBegin);
  CHECK(heart.due(kBegin));
  CHECK_FALSE(heart.due(kBegin));
  CHECK(heart.deadline() == kBegin + Heartbeat::kInterval);
  CHECK(heart.due(kBegin + Heartbeat::kInterval));
}

TEST_CASE("heartbeat: the other side is silent once nothing came for the limit") {
  Heartbeat heart;
  CHECK_FALSE(heart.silent(kBegin));
  heart.start(kBegin);
  TimePoint time = kBegin;
  for (; time < kBegin + Heartbeat::kLimit; time += Heartbeat::kInterval) {
    CHECK(heart.due(time));
    CHECK_FALSE(heart.silent(time));
  }
  CHECK(heart.silent(time));
  heart.on_received(time);
  CHECK_FALSE(heart.silent(time));
}

TEST_CASE("heartbeat: a process that was stopped itself does not blame the other side") {
  Heartbeat heart;
  heart.start(kBegin);
  CHECK(heart.due(kBegin));
  const TimePoint later = kBegin + std::chrono::minutes(5);
  CHECK(heart.due(later));
  CHECK_FALSE(heart.silent(later));
}

}  // namespace ronde
