#include "timeline/recording/clock_sync.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

namespace ronde {
namespace {

/// One exchange: out takes `there`, home `back`; the other clock is `ahead` of this one.
ClockSample exchange(std::int64_t there, std::int64_t back, std::int64_t ahead) {
  std::int64_t time = 1'000'000;
  ClockSync here("a", [&] { return time; });
  ClockSync other("b", [&] { return time + ahead; });
  const auto request = here.request();
  time += there;
  const auto answer = other.on_message(request);
  REQUIRE(answer.has_value());
  time += back;
  CHECK_FALSE(here.on_message(*answer).has_value());
  const auto samples = here.take();
  REQUIRE(samples.size() == 1);
  CHECK(here.take().empty());
  return samples.front();
}

}  // namespace

TEST_CASE("clock sync: the offset is off by no more than it says, however slow one way was") {
  constexpr std::int64_t kMinutes = 420'000'000'000;
  for (const auto& [there, back] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {20'000, 20'000}, {20'000, 900'000}, {5'000'000, 10'000}, {0, 1}}) {
    const ClockSample sample = exchange(there, back, -kMinutes);
    CHECK(std::abs(sample.offset_ns + kMinutes) <= sample.error_ns);
    CHECK(sample.error_ns <= (there + back + 1) / 2);
    CHECK(sample.reference == "b");
  }
}

TEST_CASE("clock sync: what makes no sense is ignored") {
  ClockSync sync("a", [] { return std::int64_t{1}; });
  CHECK_FALSE(sync.on_message({}).has_value());
  std::vector<std::byte> message = sync.request();
  message.pop_back();
  CHECK_FALSE(sync.on_message(message).has_value());
  message.assign(sync.request().size(), std::byte{0xff});
  CHECK_FALSE(sync.on_message(message).has_value());
  CHECK(sync.take().empty());
}

TEST_CASE("clock sync: it compares with rank 0 when that is due, until it is stopped") {
  ClockSync reference("b", [] { return std::int64_t{2}; });
  ClockSync mine("a", [] { return std::int64_t{1}; });
  CHECK(mine.take().empty());
  mine.start([&](int to, const std::function<std::vector<std::byte>()>& make) {
    CHECK(to == 0);
    const auto reply = reference.on_message(make());
    REQUIRE(reply.has_value());
    CHECK_FALSE(mine.on_message(*reply).has_value());
  });
  const auto samples = mine.take();
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].reference == "b");
  CHECK(mine.take().empty());  // the next is not due yet
  mine.stop();
  ClockSync stopped("a", [] { return std::int64_t{1}; });
  stopped.start([](int, auto) { FAIL("stopped"); });
  stopped.stop();
  CHECK(stopped.take().empty());
}

TEST_CASE("clock sync: a trace's line of it is read back") {
  const std::string line = format_clock_sample(3, {-5, 420'000'000'000, 17, "boot\"1"});
  const auto read = parse_clock_sample(line.substr(2));
  REQUIRE(read.has_value());
  CHECK(read->local_ns == -5);
  CHECK(read->offset_ns == 420'000'000'000);
  CHECK(read->error_ns == 17);
  CHECK(read->reference == "boot\"1");
  for (const char* other :
       {"{\"name\":\"x\"}", "{\"name\":\"clock\"}", "\"name\":\"clock\"",
        "{\"name\":\"clock\",\"ph\":\"M\",\"args\":3}",
        "{\"name\":\"clock\",\"ph\":\"M\",\"args\":{\"steady_ns\":1,\"offset_ns\":\"2\"}}"}) {
    CHECK_FALSE(parse_clock_sample(other).has_value());
  }
}

}  // namespace ronde
