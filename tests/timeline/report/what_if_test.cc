#include "timeline/report/what_if.h"

#include <doctest/doctest.h>

#include "tests/timeline/report/synthetic.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

const WhatIf* change_of(const std::vector<WhatIf>& changes, const char* words) {
  for (const WhatIf& change : changes) {
    if (change.change.find(words) != std::string::npos) return &change;
  }
  return nullptr;
}

/// `count` bundles each of two sizes, 300 us and 5 ns for a byte.
CostCurve curve_of(double count, double small, double large) {
  CostCurve curve;
  curve.known = true;
  curve.start_ns = 300'000;
  curve.ns_per_byte = 5;
  for (const double bytes : {small, large}) {
    curve.points.push_back({bytes, count, {300'000 + 5 * bytes, 0}});
  }
  return curve;
}

Path allreduce_over_tcp(std::string algorithm) {
  return {Collective::kAllreduce, "ALLREDUCE", std::move(algorithm), "tcp"};
}

/// A step of 10 ms compute, then 8 ms in which 10 bundles move, each 300 us and 5 ns for a byte.
Analysis planted() {
  Analysis analysis;
  analysis.by_steps = true;
  Step step;
  Split split{.end_ns = 18'000'000};
  split.ns[static_cast<std::size_t>(Phase::kOutside)] = 10'000'000;
  split.ns[static_cast<std::size_t>(Phase::kWire)] = 8'000'000;
  split.moving_ns = 8'000'000;
  step.ranks.assign(4, split);
  step.blamed_ns.assign(4, 0);
  analysis.steps.assign(10, step);
  PathCost path;
  path.path = allreduce_over_tcp("ring");
  path.bundles = 100;
  path.bytes = 10'000'000;
  analysis.paths = {path};
  PathCost way;
  way.path = allreduce_over_tcp({});
  way.bundles = path.bundles;
  way.bytes = path.bytes;
  way.cost = curve_of(50, 50e3, 150e3);
  analysis.ways = {way};
  return analysis;
}

JobTrace four_ranks() {
  JobTrace job;
  job.ranks.resize(4);
  for (RankTrace& rank : job.ranks) {
    rank.info.size = 4;
    rank.info.fusion_bytes = 0;
    rank.coding = {.fp16_ns = 0.1, .int8_ns = 0.2};
    rank.memory_gbps = 10;
  }
  return job;
}

}  // namespace

TEST_CASE("what if: fusion, compression and algorithms save what the line of costs says") {
  const auto changes = what_ifs(four_ranks(), planted());
  const WhatIf* fused = change_of(changes, "RONDE_FUSION_THRESHOLD=1048576");
  REQUIRE(fused != nullptr);
  CHECK(fused->saved_ns == doctest::Approx(9 * 300e3 - 200e3));  // 1 MB is packed, and unpacked
  REQUIRE(change_of(changes, "fp16") != nullptr);
  // Half the bytes, less coding (four times what it takes alone), less a tenth more rounds.
  CHECK(change_of(changes, "fp16")->saved_ns == doctest::Approx(2.5e6 - 0.4e6 - 0.3e6));
  CHECK(change_of(changes, "int8")->saved_ns == doctest::Approx(3.7e6 - 0.8e6 - 0.3e6));
  // Six rounds of messages become four: a third of what bundles cost to start.
  REQUIRE(change_of(changes, "halving_doubling") != nullptr);
  CHECK(change_of(changes, "halving_doubling")->saved_ns == doctest::Approx(1e6));
  CHECK(changes.front().kind == Change::kOverlap);
  CHECK(cost_model(planted()).find("300 us and 5.00 ms per MB") != std::string::npos);
  CHECK(fusion_efficiency(planted()) == doctest::Approx(5.0 / 8));
}

TEST_CASE("what if: no more is hidden behind compute than there is compute") {
  Analysis analysis = planted();
  for (Step& step : analysis.steps) {
    for (Split& split : step.ranks) {
      split.ns[static_cast<std::size_t>(Phase::kOutside)] = 3'000'000;
      split.moving_ns += 1'000'000;  // behind compute already
    }
  }
  const auto changes = what_ifs(four_ranks(), analysis);
  const WhatIf* hidden = best_of(changes, Change::kOverlap);
  REQUIRE(hidden != nullptr);
  CHECK(hidden->saved_ns == doctest::Approx(2e6));
  CHECK(hidden->change.starts_with("moving hidden behind all compute there is"));
}

TEST_CASE("what if: compression whose coding takes as long as the bytes is no hint") {
  JobTrace job = four_ranks();
  job.ranks[2].coding = {.fp16_ns = 0.6, .int8_ns = 0.9};  // one slow processor is enough
  CHECK(best_of(what_ifs(job, planted()), Change::kCompression) == nullptr);
  for (RankTrace& rank : job.ranks) rank.coding = {};  // not told, as by older traces
  CHECK(best_of(what_ifs(job, planted()), Change::kCompression) == nullptr);
}

TEST_CASE("what if: a cost that is known badly gives a range, or no hint") {
  Analysis analysis = planted();
  for (CostPoint& point : analysis.ways.front().cost.points) point.time.error = 20'000;
  const auto changes = what_ifs(four_ranks(), analysis);
  const WhatIf* halved = change_of(changes, "fp16");
  REQUIRE(halved != nullptr);
  CHECK(halved->least_ns < halved->saved_ns);
  CHECK(halved->most_ns > halved->saved_ns);
  const WhatIf range{.saved_ns = 2.5e6, .least_ns = 1.6e6, .most_ns = 3.4e6};
  CHECK(share_text(range, 18e6) == "9 to 19 %");
  CHECK(time_text(range) == "1.60 ms to 3.40 ms");
  for (CostPoint& point : analysis.ways.front().cost.points) point.time.error = 500'000;
  CHECK(best_of(what_ifs(four_ranks(), analysis), Change::kCompression) == nullptr);
}

TEST_CASE("what if: a saving that is smaller than steps differ is no hint") {
  Analysis analysis = planted();
  for (std::size_t i = 0; i < analysis.steps.size(); ++i) {
    for (Split& split : analysis.steps[i].ranks) split.end_ns += i % 2 == 0 ? 8'000'000 : 0;
  }
  CHECK(change_of(what_ifs(four_ranks(), analysis), "halving_doubling") == nullptr);
  CHECK(change_of(what_ifs(four_ranks(), planted()), "halving_doubling") != nullptr);
}

TEST_CASE("what if: where the threshold does not keep tensors apart, a group is what fuses them") {
  JobTrace job = four_ranks();
  for (RankTrace& rank : job.ranks) rank.info.fusion_bytes = 1 << 27;
  const auto changes = what_ifs(job, planted());
  CHECK(change_of(changes, "RONDE_FUSION_THRESHOLD") == nullptr);
  CHECK(change_of(changes, "as a group") != nullptr);
}

TEST_CASE("what if: of an algorithm nothing is told where several were chosen by size") {
  Analysis analysis = planted();
  analysis.paths.push_back(analysis.paths.front());
  analysis.paths.back().path = allreduce_over_tcp("tree");
  CHECK(best_of(what_ifs(four_ranks(), analysis), Change::kAlgorithm) == nullptr);
}

TEST_CASE("what if: many small bundles of one size may gain by fusion, up to a bound") {
  const Read read = read_plan({.bundles = 20, .tensors = 1, .bundle_bytes = 4096, .wire_us = 400});
  const auto changes = what_ifs(read.job, read.analysis);
  const WhatIf* fused = best_of(changes, Change::kFusion);
  REQUIRE(fused != nullptr);
  CHECK(fused->least_ns == 0);
  CHECK(fused->most_ns <= 19 * 400e3);
  CHECK(share_text(*fused, 20e6).starts_with("up to "));
  const Read large =
      read_plan({.bundles = 20, .tensors = 1, .bundle_bytes = 8 << 20, .wire_us = 400});
  CHECK(best_of(what_ifs(large.job, large.analysis), Change::kFusion) == nullptr);
}

TEST_CASE("what if: what is hidden behind compute saves nothing") {
  Analysis analysis = planted();
  for (Step& step : analysis.steps) {
    for (Split& split : step.ranks) {
      split.ns[static_cast<std::size_t>(Phase::kOutside)] = 18'000'000;
      split.ns[static_cast<std::size_t>(Phase::kWire)] = 0;
    }
  }
  CHECK(what_ifs(four_ranks(), analysis).empty());
}

TEST_CASE("what if: bundles of one size tell nothing of others, and the report says so") {
  const Read read = read_plan({.wire_us = 3000});
  CHECK(fusion_efficiency(read.analysis) < 0);
  CHECK(cost_model(read.analysis).find("too alike") != std::string::npos);
  CHECK(change_of(what_ifs(read.job, read.analysis), "fp16") == nullptr);
}

TEST_CASE("what if: a straggler that kept up would save what the others wait for it") {
  Plan plan;
  plan.early_us = [](int rank, int) { return rank == 1 ? 3000.0 : 0.0; };
  const Read read = read_plan(plan);
  const auto changes = what_ifs(read.job, read.analysis);
  REQUIRE(change_of(changes, "rank 1 as fast") != nullptr);
  CHECK(change_of(changes, "rank 1 as fast")->saved_ns == doctest::Approx(3e6).epsilon(0.2));
}

TEST_CASE("what if: the best bundles show what a path can do") {
  const Read read = read_plan({.ranks = 2, .jitter = 0, .wire_us = 1000});
  const PathCost& path = read.analysis.paths.front();
  CHECK(path.best_gbps == doctest::Approx(path.bus_gbps).epsilon(0.01));
}

}  // namespace ronde::report
