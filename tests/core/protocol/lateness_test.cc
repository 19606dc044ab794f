#include "core/protocol/lateness.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

using std::chrono::seconds;

TimePoint at(int second) { return TimePoint{} + seconds(second); }

constexpr StallLimits kLimits{.warning = seconds(10), .error = seconds(25)};

}  // namespace

TEST_CASE("Lateness: it is reported at each warning and at the error") {
  Lateness lateness{at(0)};
  CHECK(lateness.due(kLimits) == at(10));
  CHECK_FALSE(lateness.report(kLimits, at(11)));
  CHECK(lateness.due(kLimits) == at(21));
  CHECK_FALSE(lateness.report(kLimits, at(21)));
  CHECK(lateness.due(kLimits) == at(25));
  CHECK(lateness.report(kLimits, at(25)));
  CHECK(lateness.due(kLimits) == at(35));
}

TEST_CASE("Lateness: what begins to wait anew is due a warning later") {
  Lateness lateness{at(0)};
  CHECK_FALSE(lateness.report(kLimits, at(10)));
  lateness.since = at(15);
  CHECK(lateness.due(kLimits) == at(25));
}

TEST_CASE("Lateness: a limit of zero is never reached") {
  Lateness lateness{at(0)};
  CHECK(lateness.due({}) == kForever);
  CHECK(lateness.due({.error = seconds(25)}) == at(25));
  CHECK(lateness.report({.error = seconds(25)}, at(25)));
  CHECK(lateness.due({.error = seconds(25)}) == kForever);
  CHECK_FALSE(lateness.report({.warning = seconds(10)}, at(100)));
}

}  // namespace ronde
