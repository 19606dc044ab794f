#include "core/base/patience.h"

#include <doctest/doctest.h>

#include <chrono>

namespace ronde {
namespace {

constexpr Duration kSlice = std::chrono::milliseconds(3);

/// A time at which no penalty can be left.
TimePoint some_time() { return TimePoint() + std::chrono::hours(1); }

bool yields_at(Patience& patience, TimePoint time) {
  patience.begin(time);
  return patience.is_left();
}

/// For how long no wait yields after a dear yield at `time`.
Duration given_up(Patience& patience, TimePoint time) {
  patience.begin(time);
  patience.note(time, time + kSlice);
  CHECK_FALSE(patience.is_left());
  CHECK_FALSE(patience.yield());
  Duration pause{};
  while (!yields_at(patience, time + kSlice + pause)) pause += std::chrono::milliseconds(1);
  return pause;
}

TEST_CASE("a wait yields a limited number of times") {
  Patience patience;
  patience.begin(some_time());
  int count = 0;
  while (count < 100'000 && patience.yield()) ++count;
  CHECK(count < 100'000);
}

TEST_CASE("a core that comes back late ends yielding for a while") {
  Patience patience;
  CHECK(given_up(patience, some_time()) >= 3 * kSlice);
  CHECK(yields_at(patience, some_time() + std::chrono::minutes(1)));
}

TEST_CASE("the more often yielding proves dear, the rarer it is tried, within a limit") {
  Patience patience;
  TimePoint time = some_time();
  const Duration first = given_up(patience, time);
  Duration last = first;
  for (int i = 0; i < 20; ++i) last = given_up(patience, time += kSlice + last);
  CHECK(last > 3 * first);
  CHECK(last <= std::chrono::seconds(2));
  CHECK(given_up(patience, time + std::chrono::minutes(1)) == first);
}

TEST_CASE("a core that comes back at once changes nothing") {
  Patience patience;
  patience.begin(some_time());
  patience.note(some_time(), some_time() + std::chrono::microseconds(5));
  CHECK(patience.is_left());
}

}  // namespace
}  // namespace ronde
