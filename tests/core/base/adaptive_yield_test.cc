#include "core/base/adaptive_yield.h"

#include <doctest/doctest.h>

#include <chrono>

namespace ronde {
namespace {

constexpr Duration kSlice = std::chrono::milliseconds(3);

/// A time at which no penalty can be left.
TimePoint some_time() { return TimePoint() + std::chrono::hours(1); }

bool yields_at(AdaptiveYield& yields, TimePoint time) {
  yields.begin(time);
  return yields.is_left();
}

/// For how long no wait yields after a dear yield at `time`.
Duration given_up(AdaptiveYield& yields, TimePoint time) {
  yields.begin(time);
  yields.note(time, time + kSlice);
  CHECK_FALSE(yields.is_left());
  CHECK_FALSE(yields.yield());
  Duration pause{};
  while (!yields_at(yields, time + kSlice + pause)) pause += std::chrono::milliseconds(1);
  return pause;
}

TEST_CASE("a wait yields a limited number of times") {
  AdaptiveYield yields;
  yields.begin(some_time());
  int count = 0;
  while (count < 100'000 && yields.yield()) ++count;
  CHECK(count < 100'000);
}

TEST_CASE("a core that comes back late ends yielding for a while") {
  AdaptiveYield yields;
  CHECK(given_up(yields, some_time()) >= 3 * kSlice);
  CHECK(yields_at(yields, some_time() + std::chrono::minutes(1)));
}

TEST_CASE("the more often yielding proves dear, the rarer it is tried, within a limit") {
  AdaptiveYield yields;
  TimePoint time = some_time();
  const Duration first = given_up(yields, time);
  Duration last = first;
  for (int i = 0; i < 20; ++i) last = given_up(yields, time += kSlice + last);
  CHECK(last > 3 * first);
  CHECK(last <= std::chrono::seconds(2));
  CHECK(given_up(yields, time + std::chrono::minutes(1)) == first);
}

TEST_CASE("a core that comes back at once changes nothing") {
  AdaptiveYield yields;
  yields.begin(some_time());
  yields.note(some_time(), some_time() + std::chrono::microseconds(5));
  CHECK(yields.is_left());
}

}  // namespace
}  // namespace ronde
