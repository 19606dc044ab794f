#include "timeline/flows.h"

#include <doctest/doctest.h>

#include <vector>

namespace ronde {
namespace {

using Numbers = std::vector<std::uint64_t>;

report::TraceEvent submission_of(std::int64_t rank, std::int64_t lane) {
  return {.phase = 'B',
          .pid = rank,
          .tid = lane,
          .name = "NEGOTIATE_ALLREDUCE",
          .collective = Collective::kAllreduce};
}

report::TraceEvent start_of(std::int64_t rank, std::int64_t lane, std::uint64_t bundle) {
  return {.phase = 'B',
          .pid = rank,
          .tid = lane,
          .name = "ALLREDUCE",
          .collective = Collective::kAllreduce,
          .bundle = bundle};
}

/// Bundle 7 of two tensors on three ranks: rank 1 submits the second at 400, after all others.
void survey(Flows& flows) {
  for (const std::int64_t rank : {0, 1, 2}) {
    flows.survey(submission_of(rank, 3), 100 + rank);
    flows.survey(submission_of(rank, 4), rank == 1 ? 400 : 200);
    flows.survey(start_of(rank, 3, 7), 500 + rank);
    flows.survey(start_of(rank, 4, 7), 500 + rank);
  }
  flows.end_survey();
}

}  // namespace

TEST_CASE("flows: arrows go from the last submission to the start on each other rank") {
  Flows flows;
  survey(flows);
  CHECK(flows.leaving(submission_of(0, 3), 100).empty());
  const auto first = flows.arriving(start_of(0, 3, 7), 500);
  CHECK_FALSE(flows.arriving(start_of(0, 4, 7), 500));  // the next tensor of the bundle
  CHECK(flows.leaving(submission_of(1, 3), 101).empty());
  const Numbers leaving = flows.leaving(submission_of(1, 4), 400);
  CHECK_FALSE(flows.arriving(start_of(1, 3, 7), 501));
  const auto second = flows.arriving(start_of(2, 3, 7), 502);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(leaving == Numbers{first->number, second->number});
  CHECK(first->number != second->number);
  for (const Arrow& arrow : {*first, *second}) {
    CHECK(arrow.rank == 1);
    CHECK(arrow.lane == 4);
    CHECK(arrow.time_ns == 400);
  }
}

TEST_CASE("flows: no arrow goes back in time, as clocks that are a little off would have it") {
  Flows flows;
  survey(flows);
  CHECK_FALSE(flows.arriving(start_of(0, 3, 7), 399));
}

TEST_CASE("flows: pieces of one tensor have an arrow each, from the same submission") {
  Flows flows;
  for (const std::int64_t rank : {0, 1}) {
    flows.survey(submission_of(rank, 3), 100 + rank);
    flows.survey(start_of(rank, 3, 7), 200);
    flows.survey(start_of(rank, 3, 8), 300);
  }
  flows.end_survey();
  CHECK(flows.arriving(start_of(0, 3, 7), 200));
  CHECK(flows.arriving(start_of(0, 3, 8), 300));
  CHECK(flows.leaving(submission_of(1, 3), 101).size() == 2);
}

TEST_CASE("flows: what was submitted before the trace began, and what is no bundle, has none") {
  Flows flows;
  for (const std::int64_t rank : {0, 1}) {
    flows.survey(start_of(rank, 3, 7), 200);
    flows.survey(start_of(rank, 3, 0), 300);
  }
  flows.end_survey();
  CHECK_FALSE(flows.arriving(start_of(1, 3, 7), 200));
  CHECK_FALSE(flows.arriving(start_of(1, 3, 0), 300));
  CHECK_FALSE(flows.arriving(start_of(1, 3, 9), 300));
}

}  // namespace ronde
