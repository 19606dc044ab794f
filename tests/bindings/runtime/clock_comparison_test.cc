#include "bindings/runtime/clock_comparison.h"

#include <doctest/doctest.h>

#include <utility>

namespace ronde {
namespace {

/// Rank `rank` of four on two hosts.
Topology on_two_hosts(int rank) {
  return {rank, {{0, "a", 1}, {0, "a", 2}, {1, "b", 3}, {1, "b", 4}}};
}

}  // namespace

TEST_CASE("ClockComparison: the first rank of another host compares with rank 0") {
  ClockComparison reference(on_two_hosts(0));
  ClockComparison mine(on_two_hosts(2));
  mine.start([&](int to, const std::function<std::vector<std::byte>()>& make) {
    CHECK(to == 0);
    const auto reply = reference.on_message(make());
    REQUIRE(reply.has_value());
    CHECK_FALSE(mine.on_message(*reply).has_value());
  });
  const auto samples = mine.take();
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].error_ns >= 0);
  CHECK_FALSE(samples[0].reference.empty());
  CHECK(mine.take().empty());  // the next is not due yet
}

TEST_CASE("ClockComparison: other ranks send nothing, and none does before start or after stop") {
  for (const int rank : {0, 1, 3}) {
    CAPTURE(rank);
    ClockComparison silent(on_two_hosts(rank));
    silent.start([](int, auto) { FAIL("no rank but 2 compares"); });
    CHECK(silent.take().empty());
  }
  ClockComparison mine(on_two_hosts(2));
  CHECK(mine.take().empty());
  mine.start([](int, auto) { FAIL("stopped"); });
  mine.stop();
  CHECK(mine.take().empty());
}

}  // namespace ronde
