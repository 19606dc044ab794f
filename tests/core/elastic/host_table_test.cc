#include "core/elastic/host_table.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart = TimePoint(seconds(1000));

TEST_CASE("host table: a first failure is followed by a start at once, later ones by pauses") {
  HostTable table({});
  table.set({{"a", 2}});
  table.on_failure("a", kStart);
  CHECK(table.may_start("a", kStart));
  TimePoint time = kStart;
  for (const int pause : {1, 2, 4, 8, 16, 30, 30}) {
    time += seconds(1);
    table.on_failure("a", time);
    CAPTURE(pause);
    CHECK(table.paused_until("a") == time + seconds(pause));
    CHECK_FALSE(table.may_start("a", time));
    CHECK(table.next_change(time) == time + seconds(pause));
    time = table.paused_until("a");
    CHECK(table.may_start("a", time));
  }
}

TEST_CASE("host table: failures of one moment count once, and a quiet minute forgets them") {
  HostTable table({});
  table.set({{"a", 4}});
  for (int i = 0; i < 4; ++i) table.on_failure("a", kStart + milliseconds(100 * i));
  CHECK(table.may_start("a", kStart + milliseconds(300)));
  table.on_failure("a", kStart + seconds(90));
  CHECK(table.may_start("a", kStart + seconds(90)));
}

TEST_CASE("host table: a blacklisted host has no slots until its cool-down is over") {
  HostTable table({FailurePolicy::kBlacklist, seconds(5), seconds(8)});
  table.set({{"a", 2}, {"b", 2}});
  table.on_failure("a", kStart);
  CHECK(table.slots("a", kStart) == 0);
  CHECK(table.slots("b", kStart) == 2);
  CHECK(table.blacklisted("a", kStart + milliseconds(4999)));
  CHECK(table.slots("a", kStart + seconds(5)) == 2);
  table.on_failure("a", kStart + seconds(6));
  CHECK(table.paused_until("a") == kStart + seconds(6 + 8));
}

TEST_CASE("host table: without a cool-down a host is blacklisted for ever") {
  HostTable table({FailurePolicy::kBlacklist, {}, {}});
  table.set({{"a", 2}});
  table.on_failure("a", kStart);
  CHECK(table.blacklisted("a", kStart + std::chrono::hours(1000)));
  CHECK(table.next_change(kStart) == kForever);
}

TEST_CASE("host table: the place of a worker that left stays empty until the slots change") {
  HostTable table({});
  table.set({{"a", 2}});
  table.on_left("a");
  CHECK(table.slots("a", kStart) == 1);
  table.set({{"a", 2}});
  CHECK(table.slots("a", kStart) == 1);
  table.set({});
  CHECK(table.slots("a", kStart) == 0);
  table.set({{"a", 2}});
  CHECK(table.slots("a", kStart) == 2);
}

TEST_CASE("host table: a host that was lost is not tried again at once") {
  HostTable table({});
  table.set({{"a", 2}});
  table.on_lost("a", kStart);
  CHECK_FALSE(table.may_start("a", kStart));
  CHECK(table.may_start("a", kStart + seconds(1)));
}

TEST_CASE("host table: hosts that are not listed have no slots") {
  const HostTable table({});
  CHECK(table.slots("a", kStart) == 0);
  CHECK_FALSE(table.may_start("a", kStart));
}

}  // namespace
}  // namespace ronde::elastic
