#include "timeline/report/diff.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/timeline/report/synthetic.h"
#include "timeline/report/reports.h"

namespace ronde::report {
namespace {

Diff diff_of(const Plan& before, const Plan& after) {
  const Read a = read_plan(before);
  const Read b = read_plan(after);
  return compare({a.job, a.analysis}, {b.job, b.analysis});
}

}  // namespace

TEST_CASE("diff: what became slower is named, and what did not is not") {
  const Diff diff = diff_of({.wire_us = 200, .seed = 1}, {.wire_us = 1500, .seed = 2});
  CHECK(diff.step.counts(diff.step.before_ns));
  const Difference& wire = diff.parts[static_cast<std::size_t>(Phase::kWire)];
  CHECK(wire.counts(diff.step.before_ns));
  CHECK(wire.after_ns > 5 * wire.before_ns);
  CHECK_FALSE(diff.parts[0].counts(diff.step.before_ns));
  const std::string text = text_of(diff);
  CHECK(text.find("slower") != std::string::npos);
  CHECK(text.find("Most of it is wire") != std::string::npos);
  CHECK(diff.tensors.size() == 6);
  const auto json = nlohmann::json::parse(diff_json(diff));
  CHECK(json["kind"] == "diff");
  CHECK(json["step"]["counts"] == true);
  CHECK(json["parts"][4]["name"] == "wire");
  CHECK(json["parts"][4]["after_ms"].get<double>() == doctest::Approx(wire.after_ns / 1e6));
  CHECK(json["tensors"].size() == 6);
}

TEST_CASE("diff: the rank that made the difference is named, or all ranks") {
  const auto late = [](int rank, int) { return rank == 2 ? 4000.0 : 0.0; };
  const Diff one = diff_of({.seed = 5}, {.seed = 6, .late_us = late});
  CHECK(one.cause.starts_with("Rank 2 made the difference: 14"));
  CHECK(text_of(one).find("outside Ronde per step") != std::string::npos);
  const Diff all = diff_of({.compute_us = 10'000, .seed = 5}, {.compute_us = 14'000, .seed = 6});
  CHECK(all.cause.starts_with("All ranks made the difference: 1"));
  CHECK(diff_of({.wire_us = 200, .seed = 1}, {.wire_us = 1500, .seed = 2}).cause.empty());
}

TEST_CASE("diff: the mark is named that lengthened, not the wait that it causes elsewhere") {
  const auto with_mark = [](Read read, double extra_ms) {
    const std::uint32_t name = read.job.names.number_of("load");
    for (std::size_t rank = 0; rank < read.job.ranks.size(); ++rank) {
      for (const Step& step : read.analysis.steps) {
        const std::int64_t start = step.ranks[rank].start_ns;
        const double ms = 1 + (rank == 1 ? extra_ms : 0);
        read.job.ranks[rank].marks.push_back(
            {.name = name, .start_ns = start, .end_ns = start + std::int64_t(ms * 1e6)});
      }
    }
    return read;
  };
  const auto early = [](int rank, int) { return rank == 1 ? 4000.0 : 0.0; };
  const Read a = with_mark(read_plan({.seed = 5}), 0);
  const Read b = with_mark(read_plan({.seed = 6, .early_us = early}), 4);
  CHECK(compare({a.job, a.analysis}, {b.job, b.analysis}).cause ==
        "Rank 1 made the difference, in \"load\": 5.00 ms outside Ronde per step, 1.00 ms before.");
}

TEST_CASE("diff: two runs that differ by noise alone do not differ") {
  const Diff diff = diff_of({.jitter = 0.05, .seed = 3}, {.jitter = 0.05, .seed = 4});
  CHECK_FALSE(diff.step.counts(diff.step.before_ns));
  CHECK(text_of(diff).find("No difference beyond noise") == 0);
}

TEST_CASE("diff: a faster run is called faster") {
  const Diff diff = diff_of({.compute_us = 12'000}, {.compute_us = 10'000, .seed = 9});
  CHECK(text_of(diff).find("faster") != std::string::npos);
}

TEST_CASE("diff: that ranks have no trace, or the jobs other sizes, is said") {
  Read whole = read_plan({.ranks = 4});
  Read part = read_plan({.ranks = 2});
  part.job.notes.push_back("No trace of rank 1 was given.");
  const std::string text = text_of(compare({whole.job, whole.analysis}, {part.job, part.analysis}));
  CHECK(text.find("Note: After: No trace of rank 1 was given.\n") != std::string::npos);
  CHECK(text.find("Note: These are jobs of 4 and 2 ranks.\n") != std::string::npos);
}

}  // namespace ronde::report
