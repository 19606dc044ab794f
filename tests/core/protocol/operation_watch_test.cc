// When operations are late or blocked for certain, by a clock of the test's own.
#include "core/protocol/operation_watch.h"

#include <doctest/doctest.h>

#include <atomic>

#include "core/protocol/stall_facts.h"
#include "core/protocol/wire.h"
#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

using std::chrono::seconds;

TimePoint at(int second) { return TimePoint{} + seconds(second); }

/// Rank 0, which warns after 10 s, gives up after 30 s and looks for cycles after one.
struct Watched {
  const TreeNode node{};
  const ResponseCache cache{0};
  OwnOperations own{node, cache};
  OperationWatch watch{0, {.warning = seconds(10), .error = seconds(30)}, seconds(1), own};

  void submit(const std::string& name, int second,
              BlocksUntilDone blocks = BlocksUntilDone::kNothing) {
    Request request;
    request.name = name;
    request.blocks = blocks;
    Announcement told;
    REQUIRE(own.submit(request, own.size() + 1, at(second), {}, told).ok());
    watch.submitted(request, at(second));
  }
  /// A query about these, which this rank alone answers.
  std::vector<StallFact> ask(const std::vector<OpKey>& keys, std::vector<StallFact> facts) {
    for (const OpKey& key : keys) watch.note({key, false, true}, {});
    const auto query = watch.next_query();
    REQUIRE(query);
    CHECK(query->keys == keys);
    watch.begin(*query, std::move(facts), 0);
    REQUIRE(watch.answered());
    return watch.finish().second;
  }
};

StallFact lacking(const std::string& name, int missing, const std::string& blocked_in) {
  return {
      {name, 0}, 0, {missing}, 2'000, {missing, {blocked_in, 0}, Collective::kAllreduce, "", {}}};
}

}  // namespace

TEST_CASE_FIXTURE(Watched, "OperationWatch: overdue at the warning, and fatal at the error") {
  CHECK(watch.next_deadline() == kForever);
  submit("w", 0);
  CHECK(watch.next_deadline() == at(10));
  CHECK(watch.on_time(at(9)).empty());
  const auto overdue = watch.on_time(at(10));
  REQUIRE(overdue.size() == 1);
  CHECK_FALSE(overdue[0].fatal);
  CHECK(watch.next_deadline() == at(20));
  const auto fatal = watch.on_time(at(30));
  REQUIRE(fatal.size() == 1);
  CHECK(fatal[0].fatal);
}

TEST_CASE_FIXTURE(Watched, "OperationWatch: asked about once, and not after it is settled") {
  watch.note({{"w", 0}, false, false}, at(10));
  watch.note({{"w", 0}, false, false}, at(11));
  const auto query = watch.next_query();
  REQUIRE(query);
  CHECK(query->keys.size() == 1);
  watch.note({{"v", 0}, false, false}, at(11));
  watch.settled({"v", 0});
  CHECK_FALSE(watch.next_query());
}

TEST_CASE_FIXTURE(Watched, "OperationWatch: what lacks ranks is judged by the time waited") {
  const auto verdict = watch.judge({{{"a", 0}, 0, {1}, 5'000, {}},
                                    {{"b", 0}, 0, {1}, 12'000, {}},
                                    {{"c", 0}, 0, {1}, 31'000, {}}},
                                   at(40));
  REQUIRE(verdict.failures.size() == 1);
  CHECK(verdict.failures[0].name == "c");
  CHECK(verdict.failures[0].code == Code::kStalled);
  CHECK(verdict.warnings.size() == 2);
}

TEST_CASE_FIXTURE(Watched, "OperationWatch: a query joins all children's answers, each once") {
  watch.begin({7, {{"w", 0}, {"", 2}}}, {{{"w", 0}, -1, {4}, 0, {}}, {{"", 2}, -1, {4}, 0, {}}}, 2);
  CHECK_FALSE(watch.expects(0, 6));
  CHECK_FALSE(watch.expects(2, 7));
  REQUIRE(watch.expects(1, 7));
  watch.answer(1, {{{"w", 0}, 0, {3, 1}, 61'000, {}}, {{"stranger", 0}, 0, {1}, 5, {}}});
  CHECK_FALSE(watch.expects(1, 7));
  CHECK_FALSE(watch.answered());
  watch.answer(0, {{{"w", 0}, 0, {}, 60'000, {}}});
  REQUIRE(watch.answered());
  watch.settled({"", 2});
  const auto [query, facts] = watch.finish();
  CHECK(query == 7);
  REQUIRE(facts.size() == 1);
  CHECK(stall_text(facts[0]) == "allreduce \"w\" has waited 61 s for ranks 1, 3, 4");
  CHECK_FALSE(watch.asks());
}

TEST_CASE_FIXTURE(Watched, "OperationWatch: what blocks its rank is checked once, for a cycle") {
  submit("w", 5, BlocksUntilDone::kEverything);
  CHECK(watch.next_deadline() == at(6));
  CHECK(watch.on_time(at(5)).empty());
  const auto checked = watch.on_time(at(6));
  REQUIRE(checked.size() == 1);
  CHECK(checked[0].asks);
  CHECK(watch.on_time(at(9)).empty());
  CHECK(watch.next_deadline() == at(15));
}

TEST_CASE_FIXTURE(Watched, "OperationWatch: a declared wait blocks its rank until it is cleared") {
  submit("w", 5);
  const auto blocked = std::make_shared<std::atomic<bool>>(true);
  CHECK(watch.declare_blocked(std::vector<std::uint64_t>{1}, blocked).size() == 1);
  const std::vector<StallFact> lacks{{{"v", 0}, -1, {0}, 0, {}}};
  CHECK(ask({{"v", 0}}, lacks)[0].blocked.key == OpKey{"w", 0});
  blocked->store(false);
  CHECK(ask({{"v", 0}}, lacks)[0].blocked.rank < 0);
}

TEST_CASE_FIXTURE(Watched, "OperationWatch: a cycle fails once all of it has been asked about") {
  ask({{"a", 0}}, {});
  CHECK(watch.judge({lacking("a", 1, "b")}, at(6)).failures.empty());
  ask({{"a", 0}, {"b", 0}}, {});
  const auto verdict = watch.judge({lacking("a", 1, "b"), lacking("b", 0, "a")}, at(7));
  REQUIRE(verdict.failures.size() == 2);
  CHECK(verdict.failures[0].code == Code::kMismatch);
  CHECK(verdict.warnings.empty());
}

// The query's way through the ranks.

namespace {

/// One rank of three, with the frames of others made by hand.
struct AskedRank {
  AskedRank(int rank, std::vector<int> hosts)
      : member({.rank = rank,
                .members = {0, 1, 2},
                .hosts = std::move(hosts),
                .stall = {.warning = seconds(10), .error = seconds(30)}}) {}

  void submit(const std::string& name) { REQUIRE(member.submit(allreduce(name), 1, {}).ok()); }
  /// The number of frames that this rank has sent; `last` has the last one.
  std::size_t sent() {
    std::vector<OutFrame> out;
    member.take_frames(out);
    if (!out.empty()) REQUIRE(last.read(out.back().bytes).ok());
    return out.size();
  }
  template <typename Frame>
  Status take(int from, const Frame& frame, int second) {
    Status status;
    FrameWriter().write(frame, [&](std::span<const std::byte> bytes) {
      status = member.on_frame(from, bytes, at(second));
    });
    return status;
  }
  std::vector<std::string> warnings() {
    std::vector<std::string> out;
    member.take_warnings(out);
    return out;
  }

  Member member;
  FrameReader last;
};

TickFrame answer_to(std::uint64_t query, const std::string& name, int missing) {
  TickFrame tick;
  tick.query = query;
  tick.facts = {{{name, 0}, -1, {missing}, 0, {}}};
  return tick;
}

}  // namespace

TEST_CASE("Overdue operations: the root asks its children, and warns all when they have answered") {
  AskedRank root(0, {0, 0, 0});
  root.submit("w");
  root.member.on_time(at(10));
  REQUIRE(root.sent() == 2);
  REQUIRE(root.last.query.keys == std::vector<OpKey>{{"w", 0}});
  const std::uint64_t query = root.last.query.query;
  for (const int child : {1, 2}) {
    CHECK(root.warnings().empty());
    REQUIRE(root.take(child, answer_to(query, "w", child), 11).ok());
    CHECK_FALSE(root.take(child, answer_to(query, "w", child), 11).ok());  // it owes no second one
  }
  const auto warnings = root.warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("allreduce \"w\" has waited 10 s for ranks 1, 2") == 0);
  CHECK(root.sent() == 2);
  CHECK(root.last.warning.texts == warnings);
  CHECK(root.warnings().empty());
}

TEST_CASE("Overdue operations: one beyond the limit of errors fails") {
  AskedRank root(0, {0, 0, 0});
  root.submit("w");
  root.member.on_time(at(30));
  root.sent();
  const std::uint64_t query = root.last.query.query;
  for (const int child : {1, 2}) REQUIRE(root.take(child, answer_to(query, "w", child), 30).ok());
  std::vector<Batch> batches;
  root.member.take_batches(batches);
  REQUIRE(batches.size() == 1);
  REQUIRE(batches[0].items.size() == 1);
  CHECK(batches[0].items[0].status.code() == Code::kStalled);
}

TEST_CASE("Overdue operations: another rank reports them, and joins its children's answers") {
  AskedRank inner(1, {0, 1, 1});
  inner.submit("w");
  inner.member.on_time(at(10));
  TickFrame reports;
  reports.overdue = {{{"v", 0}, false, false}};
  REQUIRE(inner.take(2, reports, 10).ok());
  CHECK(inner.sent() == 1);
  CHECK(inner.last.tick.overdue.size() == 2);

  const QueryFrame query{4, {{"w", 0}}};
  REQUIRE(inner.take(0, query, 11).ok());
  CHECK_FALSE(inner.take(0, query, 11).ok());  // one at a time
  CHECK(inner.sent() == 1);                    // passed on to rank 2
  REQUIRE(inner.take(2, answer_to(4, "w", 2), 11).ok());
  CHECK(inner.sent() == 1);
  CHECK(inner.last.tick.query == 4);
  REQUIRE(inner.last.tick.facts.size() == 1);
  CHECK(inner.last.tick.facts[0].missing == std::vector<int>{2});
}

TEST_CASE("Overdue operations: what does not fit is refused, and the root's warnings are kept") {
  AskedRank inner(1, {0, 1, 1});
  CHECK_FALSE(inner.take(2, answer_to(9, "w", 2), 1).ok());
  CHECK_FALSE(inner.take(0, QueryFrame{0, {{"w", 0}}}, 1).ok());
  REQUIRE(inner.take(0, QueryFrame{4, {{"w", 0}}}, 1).ok());
  TickFrame tick = answer_to(4, "w", 2);
  tick.facts[0].blocked = {77, {"v", 0}, Collective::kAllreduce, "", {}};
  CHECK(inner.take(2, tick, 1).message().find("a rank outside the set") != std::string::npos);
  CHECK(inner.take(0, WarningFrame{{"late"}}, 1).ok());
  CHECK(inner.warnings() == std::vector<std::string>{"late"});
}

}  // namespace ronde
