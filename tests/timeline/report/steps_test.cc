#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "tests/timeline/report/synthetic.h"
#include "timeline/report/analysis.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

Read unmarked(Plan plan = {}) {
  plan.step_marks = false;
  return read_plan(plan);
}

}  // namespace

TEST_CASE("inferred steps: they are the ones that were not marked, but for the ends") {
  const Read marked = read_plan({});
  const Read read = unmarked();
  const InferredSteps inferred = infer_steps(read.job);
  CHECK(inferred.first == "allreduce.layer0.0");
  REQUIRE(inferred.steps.size() == 38);
  for (std::size_t i = 1; i < 30; ++i) {
    const Split& known = marked.analysis.steps[i].ranks[2];
    CHECK(inferred.steps[i].ranks[2].start_ns == known.start_ns);
    CHECK(inferred.steps[i].ranks[2].end_ns == known.end_ns);
  }
  CHECK(read.analysis.by_steps);
  CHECK(steps_note(read.analysis).find("\"allreduce.layer0.0\"") != std::string::npos);
  CHECK(steps_note(marked.analysis).empty());
}

TEST_CASE("inferred steps: operations without names are told apart by their bytes") {
  Read read = unmarked();
  for (RankTrace& rank : read.job.ranks) {
    for (OperationSpan& span : rank.operations) {
      const bool is_first = read.job.names.text_of(span.name) == "allreduce.layer0.0";
      span.bytes = is_first ? 1000 : 2000;
      span.name = read.job.names.number_of("allreduce.unnamed");
    }
  }
  CHECK(infer_steps(read.job).steps.size() == 38);
}

TEST_CASE("inferred steps: what one rank makes more often is no step's beginning") {
  Read read = unmarked();
  read.job.ranks[1].operations.pop_back();
  read.job.ranks[1].operations.erase(read.job.ranks[1].operations.begin());
  CHECK(infer_steps(read.job).steps.empty());
}

TEST_CASE("inferred steps: a job that computes as long before all operations has none") {
  CHECK(infer_steps(unmarked({.bundles = 4, .one_by_one = true}).job).steps.size() == 38);
  Read read = unmarked({.bundles = 1});
  std::uint32_t count = 0;
  for (RankTrace& rank : read.job.ranks) {
    count = 0;
    for (OperationSpan& span : rank.operations) {
      span.name = read.job.names.number_of("of " + std::to_string(++count % 4));
    }
  }
  CHECK(infer_steps(read.job).steps.empty());
}

}  // namespace ronde::report
