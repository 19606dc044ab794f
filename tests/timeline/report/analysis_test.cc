#include "timeline/report/analysis.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/timeline/report/synthetic.h"
#include "timeline/report/summary.h"

namespace ronde::report {

TEST_CASE("analysis: the parts of each step add up to it") {
  const Read read = read_plan({.jitter = 0.1, .pack_us = 100});
  CHECK(read.analysis.by_steps);
  CHECK(read.analysis.steps.size() == 39);  // the first has no beginning
  for (const Step& step : read.analysis.steps) {
    for (const Split& split : step.ranks) {
      std::int64_t sum = 0;
      for (const std::int64_t ns : split.ns) sum += ns;
      CHECK(sum == split.duration_ns());
      CHECK(split.overlapped_ns() >= 0);
    }
  }
}

TEST_CASE("analysis: times are those that were planted") {
  const Read read = read_plan({.jitter = 0, .agree_us = 50, .wire_us = 300, .pack_us = 100});
  const Means means = means_of(read.analysis);
  CHECK(means.of(Phase::kOutside) == doctest::Approx(10'000e3).epsilon(0.001));
  CHECK(means.of(Phase::kWire) == doctest::Approx(300e3).epsilon(0.01));
  CHECK(means.of(Phase::kPack) == doctest::Approx(100e3).epsilon(0.01));
  CHECK(means.of(Phase::kNegotiation) == doctest::Approx(50e3).epsilon(0.02));
  CHECK(means.of(Phase::kWaiting) < 1e3);
  CHECK(means.overlapped_ns == doctest::Approx(400e3).epsilon(0.01));  // the first bundle
}

TEST_CASE("analysis: who waits, waits for the rank that submitted last") {
  Plan plan;
  plan.jitter = 0;
  plan.late_us = [](int rank, int) { return rank == 1 ? 1000.0 : 0.0; };
  const Read read = read_plan(plan);
  for (const Step& step : read.analysis.steps) {
    CHECK(step.blamed_ns[0] == 0);
    CHECK(step.blamed_ns[1] == doctest::Approx(3 * 1000e3).epsilon(0.02));
    CHECK(step.ranks[1].of(Phase::kWaiting) == 0);
  }
}

TEST_CASE("analysis: paths have the bandwidth that was planted, and fusion its counts") {
  const Read read = read_plan({.ranks = 2, .jitter = 0, .wire_us = 1000});
  REQUIRE(read.analysis.paths.size() == 1);
  const PathCost& path = read.analysis.paths[0];
  CHECK(path.path.text() == "ALLREDUCE ring over tcp");
  CHECK(path.path.collective == Collective::kAllreduce);
  CHECK(path.bus_gbps == doctest::Approx(1.048576).epsilon(0.001));  // 2 ranks: as many bytes
  CHECK(read.analysis.fusion.bundles == doctest::Approx(2).epsilon(0.1));
  CHECK(read.analysis.fusion.tensors == doctest::Approx(6).epsilon(0.1));
}

TEST_CASE("analysis: what the slowest network interface claims stands beside what paths reach") {
  Read read = read_plan({.steps = 3});
  CHECK(bandwidth_note(read.job).find("network interface") == std::string::npos);
  read.job.ranks[0].info.network_interface = "eth0";
  read.job.ranks[0].info.network_megabits = 25'000;
  read.job.ranks[1].info.network_interface = "ens5";
  read.job.ranks[1].info.network_megabits = 10'000;
  const std::string note = bandwidth_note(read.job);
  CHECK(note.find("ens5") != std::string::npos);
  CHECK(note.find("10000 Mbit/s: 1.25 GB/s") != std::string::npos);
  read.job.ranks[1].info.network_megabits = 0;
  CHECK(bandwidth_note(read.job).find("does not tell its speed") != std::string::npos);
}

TEST_CASE("analysis: without marks and operations that come again it goes by windows") {
  Read read = read_plan({.step_marks = false});
  for (RankTrace& rank : read.job.ranks) {
    for (OperationSpan& span : rank.operations) {  // that nothing comes again
      span.name = read.job.names.number_of("once " + std::to_string(span.bundle));
    }
  }
  const Analysis analysis = analyze(read.job);
  CHECK_FALSE(analysis.by_steps);
  CHECK(analysis.steps.size() == 40);
}

TEST_CASE("analysis: a step in which a recording paused counts as nothing") {
  Read read = read_plan({});
  const Split split = read.analysis.steps[5].ranks[1];
  const std::size_t steps = read.analysis.steps.size();
  read.job.ranks[1].pauses.push_back(
      {.start_ns = split.start_ns + 1000, .end_ns = split.start_ns + 2000});
  const Analysis analysis = analyze(read.job);
  CHECK(analysis.steps.size() == steps - 1);
  for (const Step& step : analysis.steps) CHECK(step.ranks[1].start_ns != split.start_ns);
  // Nor do its bundles: all steps have as many.
  CHECK(analysis.fusion.bundles == doctest::Approx(read.analysis.fusion.bundles));
  CHECK(analysis.fusion.tensors == doctest::Approx(read.analysis.fusion.tensors));
}

TEST_CASE("analysis: a trace without any operation has nothing to say, and says so") {
  const ScratchFolder scratch;
  const Read read = read_plan({.steps = 0});
  CHECK(read.analysis.steps.empty());
  CHECK(read.findings.size() == 1);
}

}  // namespace ronde::report
