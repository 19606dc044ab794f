#include "core/protocol/overdue_inquiry.h"

#include <doctest/doctest.h>

#include <chrono>

namespace ronde {
namespace {

TimePoint after(int seconds) { return TimePoint{} + std::chrono::seconds(seconds); }

/// One rank of a set of three, with all that its inquiry needs.
struct InquiringRank {
  InquiringRank(int the_rank, TreePlace the_place) : rank(the_rank), place(std::move(the_place)) {}

  void submit(const std::string& name) {
    Request request;
    request.name = name;
    request.tensors = {{DType::kFloat32, {2}}};
    REQUIRE(matching.submit(request, 1, {}).ok());
    inquiry.submitted(request, {});
  }
  /// The frames that this rank has sent; `last` has the last one.
  std::size_t sent() {
    std::vector<OutFrame> out;
    frames.take(out);
    if (!out.empty()) REQUIRE(last.read(out.back().bytes).ok());
    return out.size();
  }
  std::vector<std::string> warnings() {
    std::vector<std::string> out;
    inquiry.take(out);
    return out;
  }

  int rank;
  TreePlace place;
  const std::vector<int> members{0, 1, 2};
  NegotiationState state{rank, place, 4};
  Matching matching{rank, members, place, state};
  StallWatch stalls{std::chrono::seconds(10), std::chrono::seconds(30), state.own};
  TreeFrames frames{place};
  Batcher batcher{place,
                  state,
                  matching,
                  stalls,
                  [this](const BatchFrame& batch) { frames.send_down(batch); },
                  [](const Report&) { return std::vector<std::byte>(); }};
  OverdueInquiry inquiry{
      rank, std::chrono::seconds(0), {place, state, matching, stalls, batcher, frames}};
  FrameReader last;
};

TickFrame answer_to(std::uint64_t query, const std::string& name, int missing) {
  TickFrame tick;
  tick.query = query;
  tick.facts = {{{name, 0}, -1, {missing}, 0, {}}};
  return tick;
}

TEST_CASE("OverdueInquiry: the root asks its children, and warns all once they have answered") {
  InquiringRank root(0, {-1, {1, 2}});
  CHECK(root.inquiry.next_deadline() == kForever);
  root.submit("w");
  CHECK(root.inquiry.next_deadline() == after(10));
  root.inquiry.on_time(after(10));
  REQUIRE(root.sent() == 2);
  REQUIRE(root.last.query.keys.size() == 1);
  CHECK(root.last.query.keys[0].name == "w");
  const std::uint64_t query = root.last.query.query;
  for (const int source : {1, 2}) {
    CHECK(root.warnings().empty());
    const TickFrame tick = answer_to(query, "w", source);
    REQUIRE(root.inquiry.check(tick, source).ok());
    root.inquiry.take_answer(tick, source, after(11));
    CHECK_FALSE(root.inquiry.check(tick, source).ok());  // it owes no second one
  }
  const auto warnings = root.warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("allreduce \"w\" has waited 10 s for ranks 1, 2") == 0);
  CHECK(root.sent() == 2);
  CHECK(root.last.warning.texts == warnings);
  CHECK(root.warnings().empty());
}

TEST_CASE("OverdueInquiry: an operation beyond the limit of errors fails") {
  InquiringRank root(0, {-1, {1, 2}});
  root.submit("w");
  root.inquiry.on_time(after(30));
  root.sent();
  const std::uint64_t query = root.last.query.query;
  for (const int source : {1, 2}) {
    root.inquiry.take_answer(answer_to(query, "w", source), source, after(30));
  }
  std::vector<Batch> batches;
  root.batcher.take(batches);
  REQUIRE(batches.size() == 1);
  REQUIRE(batches[0].items.size() == 1);
  CHECK(batches[0].items[0].status.code() == Code::kStalled);
}

TEST_CASE("OverdueInquiry: another rank reports to its parent, and joins its children's answers") {
  InquiringRank inner(1, {0, {2}});
  inner.submit("w");
  inner.inquiry.on_time(after(10));
  CHECK(inner.state.draft.frame.overdue.size() == 1);
  TickFrame reports;
  reports.overdue = {{{"v", 0}, false, false}};
  inner.inquiry.take_reports(reports, after(10));
  CHECK(inner.state.draft.frame.overdue.size() == 2);

  QueryFrame query{4, {{"w", 0}}};
  REQUIRE(inner.inquiry.check(query).ok());
  inner.inquiry.answer(query, after(11));
  CHECK_FALSE(inner.inquiry.check(query).ok());  // one at a time
  CHECK(inner.state.draft.frame.query == 0);
  inner.inquiry.take_answer(answer_to(4, "w", 2), 1, after(11));
  CHECK(inner.state.draft.frame.query == 4);
  REQUIRE(inner.state.draft.frame.facts.size() == 1);
  CHECK(inner.state.draft.frame.facts[0].missing == std::vector<int>{2});
  CHECK(inner.sent() == 0);
}

TEST_CASE("OverdueInquiry: what does not fit is refused") {
  InquiringRank inner(1, {0, {2}});
  CHECK_FALSE(inner.inquiry.check(answer_to(9, "w", 2), 1).ok());
  CHECK_FALSE(inner.inquiry.check(QueryFrame{0, {{"w", 0}}}).ok());
  TickFrame tick;
  tick.facts = {{{"w", 0}, -1, {2}, 0, {}}};
  CHECK(inner.inquiry.check(tick, 1).ok());
  tick.facts[0].blocked.rank = 77;
  CHECK(inner.inquiry.check(tick, 1).message().find("a rank outside the set") != std::string::npos);
}

TEST_CASE("OverdueInquiry: warnings of the root reach the people at every rank") {
  InquiringRank leaf(2, {1, {}});
  leaf.inquiry.take_warnings({{"late"}});
  CHECK(leaf.warnings() == std::vector<std::string>{"late"});
}

}  // namespace
}  // namespace ronde
