#include "core/protocol/matching.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

Request request_named(std::string name) {
  Request request;
  request.name = std::move(name);
  request.tensors = {{DType::kFloat32, {2}}};
  return request;
}

Report report_of(int rank) {
  Report report;
  report.rank = rank;
  report.request = std::make_shared<Request>(request_named("w"));
  return report;
}

/// Rank 1 of three, which reports to rank 0 for itself and for rank 2.
struct MatchingNode {
  const std::vector<int> members{0, 1, 2};
  const TreePlace place{0, {2}};
  NegotiationState state{1, place, 4};
  Matching matching{1, members, place, state};
};

TEST_CASE("Matching: an operation is reported once the whole subtree has submitted it") {
  MatchingNode node;
  CHECK(node.matching.submit(request_named("w"), 7, {}).ok());
  CHECK(node.state.draft.is_empty);
  TickFrame tick;
  tick.reports.push_back(report_of(2));
  REQUIRE(node.matching.check_tick(tick, 1, 0).ok());
  node.matching.apply_reports(tick, 1);
  node.matching.report_completed();
  REQUIRE(node.state.draft.frame.reports.size() == 1);
  Agreed agreed;
  CHECK(node.matching.take({"w", 0}, agreed));
  CHECK(agreed.ticket == 7);
  CHECK_FALSE(node.matching.takes_part({"w", 0}));
}

TEST_CASE("Matching: a name in flight is refused, and after a join all is") {
  MatchingNode node;
  CHECK(node.matching.submit(request_named("w"), 1, {}).ok());
  CHECK(node.matching.submit(request_named("w"), 2, {}).code() == Code::kDuplicateName);
  CHECK(node.matching.join(3).ok());
  CHECK(node.matching.submit(request_named("v"), 4, {}).code() == Code::kInvalidArgument);
  const std::vector<Agreed> all = node.matching.take_all();
  REQUIRE(all.size() == 2);
  CHECK(all.back().ticket == 3);
}

TEST_CASE("Matching: what failed without this rank is its error, once") {
  MatchingNode node;
  node.matching.fail_early({"w", 0}, Status(Code::kStalled, "late"), 1, true);
  CHECK(node.matching.submit(request_named("w"), 1, {}).code() == Code::kStalled);
  CHECK(node.matching.submit(request_named("w"), 2, {}).ok());
}

TEST_CASE("Matching: reports of non-members and of future batches are refused") {
  MatchingNode node;
  TickFrame tick;
  tick.acked = 1;
  CHECK_FALSE(node.matching.check_tick(tick, 1, 0).ok());
  tick.acked = 0;
  tick.reports.push_back(report_of(9));
  CHECK_FALSE(node.matching.check_tick(tick, 1, 0).ok());
}

}  // namespace
}  // namespace ronde
