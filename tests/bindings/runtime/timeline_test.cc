#include "bindings/runtime/timeline.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "core/base/clock.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

/// Of a job of one rank.
struct TimelineFixture {
  Config config;
  Topology topology{0, {{0, "alpha", 1}}};
  const ScratchFolder scratch;
  [[nodiscard]] std::string path() const { return scratch.file("t.json"); }
  [[nodiscard]] std::string trace() const { return content_of(scratch.file("t.rank0.json")); }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Timeline: it holds what happens between start and stop, and not what is paused") {
  TimelineFixture fixture;
  Timeline timeline(fixture.config, fixture.topology, {});
  timeline.mark("before");
  REQUIRE(timeline.start(fixture.path()).ok());
  timeline.mark("during");
  CHECK(timeline.start(fixture.path()).ok());  // leaves it as it is
  timeline.pause(true);
  timeline.mark("paused");
  timeline.pause(true);
  timeline.pause(false);
  timeline.mark("resumed");
  { const Timeline::WaitSpan waiting(timeline, kWaitSpan); }
  CHECK(timeline.stop().ok());
  CHECK(timeline.stop().ok());
  timeline.mark("after");
  const std::string trace = fixture.trace();
  for (const char* there : {"during", "resumed", "WAIT"}) CHECK(has(trace, there));
  for (const char* absent : {"before", "\"paused\"", "after"}) CHECK_FALSE(has(trace, absent));
}

TEST_CASE("Timeline: a second start ends the first file, unless the second cannot be opened") {
  TimelineFixture fixture;
  Timeline timeline(fixture.config, fixture.topology, {});
  REQUIRE(timeline.start(fixture.path()).ok());
  CHECK_FALSE(timeline.start(fixture.scratch.file("t.rank0.json/t.json")).ok());
  timeline.mark("first");
  REQUIRE(timeline.start(fixture.scratch.file("second.json")).ok());
  timeline.mark("second");
  CHECK(timeline.stop().ok());
  const std::string second = content_of(fixture.scratch.file("second.rank0.json"));
  CHECK(has(fixture.trace(), "first"));
  CHECK_FALSE(has(fixture.trace(), "second"));
  CHECK(has(second, "second"));
  CHECK_FALSE(has(second, "first"));
}

TEST_CASE("Timeline: steps are counted always, and shown with marks and passes") {
  TimelineFixture fixture;
  Timeline timeline(fixture.config, fixture.topology, {});
  timeline.mark_step();
  REQUIRE(timeline.start(fixture.path()).ok());
  timeline.begin_mark("forward pass");
  timeline.end_mark();
  timeline.mark_pass("backward");
  timeline.mark_pass("");
  timeline.mark_step();
  CHECK(timeline.steps() == 2);
  CHECK(timeline.stop().ok());
  const std::string trace = fixture.trace();
  for (const char* part : {"forward pass", "backward", "\"value\":2"}) CHECK(has(trace, part));
}

TEST_CASE("Timeline: the signal starts it at the setting's path, pauses it and resumes it") {
  TimelineFixture fixture;
  fixture.config.timeline = fixture.path();
  fixture.config.timeline_signal = "USR1";
  Timeline timeline(fixture.config, fixture.topology, {});
  REQUIRE(timeline.begin().ok());
  CHECK(timeline.events().get() == nullptr);
  timeline.toggle();
  CHECK(timeline.events().get() != nullptr);
  timeline.toggle();
  CHECK(timeline.events().get() == nullptr);
  timeline.toggle();
  CHECK(timeline.events().get() != nullptr);
  CHECK(timeline.stop().ok());
  CHECK(timeline.events().get() == nullptr);
}

TEST_CASE("Timeline: it begins as the settings say, and names those that contradict") {
  TimelineFixture fixture;
  {
    Timeline off(fixture.config, fixture.topology, {});
    CHECK(off.begin().ok());
    CHECK(off.events().get() == nullptr);
  }
  fixture.config.timeline_signal = "USR1";
  {
    Timeline nowhere(fixture.config, fixture.topology, {});
    CHECK(has(nowhere.begin().message(), "RONDE_TIMELINE_SIGNAL=USR1 needs RONDE_TIMELINE"));
  }
  fixture.config.timeline = fixture.path();
  fixture.config.dump_signal = "USR1";
  {
    Timeline same(fixture.config, fixture.topology, {});
    CHECK(has(same.begin().message(), "is the signal that asks for dumps"));
  }
  fixture.config.timeline_signal = "off";
  Timeline at_once(fixture.config, fixture.topology, {});
  CHECK(at_once.begin().ok());
  CHECK(at_once.events().get() != nullptr);
  CHECK(at_once.stop().ok());
}

TEST_CASE("Timeline: clock comparisons and counters are asked for and written") {
  TimelineFixture fixture;
  std::atomic<int> asked{0};
  Recorder::Options sources;
  sources.clock_samples = [] { return std::vector<ClockSample>{{1, 2, 3, "other host"}}; };
  sources.counters = [&] {
    ++asked;
    return std::vector<CounterSample>{{"queue length", 7}};
  };
  Timeline timeline(fixture.config, fixture.topology, std::move(sources));
  REQUIRE(timeline.start(fixture.path()).ok());
  const TimePoint limit = now() + std::chrono::seconds(20);
  while (asked < 2 && now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(timeline.stop().ok());
  const std::string trace = fixture.trace();
  CHECK(has(trace, "other host"));
  CHECK(has(trace, "queue length"));
}

TEST_CASE(
    "Timeline: a worker of an elastic job goes on recording in its next epoch, until it stops") {
  TimelineFixture fixture;
  fixture.config.worker = 801;
  const auto run_epoch = [&](int epoch, bool starts, bool stops) {
    fixture.config.epoch = epoch;
    Timeline timeline(fixture.config, fixture.topology, {});
    CHECK(timeline.begin().ok());
    if (starts) CHECK(timeline.start(fixture.path()).ok());
    timeline.mark("here");
    if (stops) CHECK(timeline.stop().ok());
    CHECK(timeline.end().ok());
    return content_of(fixture.scratch.file(fmt::format("t.worker801.epoch{}.json", epoch)));
  };
  CHECK(run_epoch(2, false, false).empty());
  CHECK(has(run_epoch(3, true, false), "here"));
  const std::string trace = run_epoch(4, false, true);
  CHECK(has(trace, "here"));
  CHECK(has(trace, "epoch 4: rank 0 of 1"));
  CHECK(run_epoch(5, false, false).empty());
}

}  // namespace ronde
