// The outages of one connection.
#include "backends/net/connection/outage.h"

#include <doctest/doctest.h>

#include <chrono>

namespace ronde::net {
namespace {

TEST_CASE("an outage lasts until it ends, and those that have ended are taken once") {
  const TimePoint start = now();
  OutageLog log;
  log.end(start);  // none lasts
  CHECK_FALSE(log.has_ended());
  for (const char* reason : {"broke", "fell silent"}) {
    log.begin({.began = start, .reason = reason});
    REQUIRE(log.lasting());
    CHECK(log.lasting()->began == start);
    log.end(start + std::chrono::seconds(3));
    CHECK_FALSE(log.lasting());
    CHECK(log.has_ended());
  }
  const auto ended = log.take_ended();
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].reason == "broke");
  CHECK(ended[1].reason == "fell silent");
  CHECK(ended[1].ended - ended[1].began == std::chrono::seconds(3));
  CHECK_FALSE(log.has_ended());
  CHECK(log.take_ended().empty());
}

TEST_CASE("an outage that is dropped neither lasts nor has ended") {
  OutageLog log;
  log.begin({.began = now(), .reason = "broke"});
  log.drop();
  CHECK_FALSE(log.lasting());
  log.end(now());
  CHECK_FALSE(log.has_ended());
}

}  // namespace
}  // namespace ronde::net
