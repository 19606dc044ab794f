#include "core/protocol/subtree.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/tree_parts.h"

namespace ronde {
namespace {

/// The root of the ranks 0, 1, 2, with "a" (slot 0) and a broadcast "b" (slot 70).
struct Node : TreeParts {
  Node() : TreeParts(0, {0, 1, 2}, root({1, 2}), 128) {
    for (int slot = 0; slot <= 70; ++slot) {
      Request request = allreduce(slot == 0 ? "a" : "x" + std::to_string(slot));
      if (slot == 70) request = request_for(Collective::kBroadcast, "b");
      cache.assign(slot, std::make_shared<const Request>(request), 0);
    }
  }

  void add_bit(int source, int slot) {
    if (source == 0) return subtree.add({.slot = slot});
    TickFrame tick;
    tick.words.resize(word_of(slot) + 1);
    tick.words[word_of(slot)] = mask_of(slot);
    take(tick, source);
  }
  void add_report(int source, Report report) {
    if (source == 0) return subtree.add({.report = std::move(report)});
    TickFrame tick;
    tick.reports = {std::move(report)};
    take(tick, source);
  }
  void add_notice(int source, const Notice& notice) {
    if (source == 0) return subtree.add({.duplicate = notice});
    TickFrame tick;
    tick.notices = {notice};
    take(tick, source);
  }
  void join(int source) {
    if (source == 0) return subtree.join();
    TickFrame tick;
    tick.last_joined = source;
    take(tick, source);
  }
  void take(TickFrame& tick, int source) {
    REQUIRE(subtree.check(tick, source, 0).ok());
    subtree.take(tick, source);
  }

  std::vector<std::int32_t> completed() { return subtree.completed().order; }
  const Report& completed_report() { return subtree.completed().reports.at(0); }
};

}  // namespace

TEST_CASE("Subtree: a bit completes when all sources have set it, and only once") {
  Node node;
  node.add_bit(0, 70);
  node.add_bit(2, 70);
  node.add_bit(2, 0);
  CHECK(node.completed().empty());
  CHECK(node.subtree.is_pending(70));
  CHECK(node.subtree.lacking({"b", 0}) == std::vector<int>{1});
  node.add_bit(1, 70);
  node.add_bit(1, 70);
  CHECK(node.completed() == std::vector<std::int32_t>{70});
  CHECK(node.subtree.is_complete({"b", 0}));
  node.subtree.resolve(70);
  CHECK_FALSE(node.subtree.is_pending(70));
  CHECK(node.subtree.is_pending(0));
}

namespace {

/// Node with a weighted allreduce "w" in slot 71.
struct WeightedNode : Node {
  WeightedNode() {
    Request request = allreduce("w");
    request.weight = 0.0;
    cache.assign(71, std::make_shared<const Request>(request), 0);
  }

  void add(int source, double weight) {
    Report known = report_by(source, {});
    known.slot = 71;
    known.request = cache.at(71);
    known.weight = weight;
    add_report(source, known);
  }
};

}  // namespace

TEST_CASE("Subtree: weights of a cached operation are added, each source's once") {
  WeightedNode node;
  for (const double step : {0.0, 1.0}) {
    node.add(2, 4 + step);
    node.add(2, 100);
    node.add(0, 1 + step);
    CHECK(node.completed().empty());
    node.add(1, 2 + step);
    node.add(1, 100);
    CHECK(node.completed() == std::vector<std::int32_t>{-1});
    const Report& sum = node.completed_report();
    CHECK(sum.weight == 7 + 3 * step);
    CHECK(sum.slot == 71);
    CHECK(sum.code == Code::kOk);
    node.subtree.completed().clear();
    node.subtree.resolve(71);
    CHECK_FALSE(node.subtree.is_pending(71));
  }
}

TEST_CASE("Subtree: weights count, too, where a report is given in full or a rank has joined") {
  WeightedNode node;
  node.add(0, 1);
  Request request = allreduce("w");
  request.weight = 0.0;
  Report full = report_by(1, request);
  full.weight = 2;
  node.add_report(1, full);
  node.add(2, 4);
  CHECK(node.completed_report().weight == 7);
  node.subtree.completed().clear();
  node.subtree.resolve(71);
  node.add(0, 8);
  node.add(2, 16);
  node.join(1);
  CHECK(node.completed_report().weight == 24);
}

TEST_CASE("Subtree: a weighted operation meets a report without a weight, or a notice") {
  WeightedNode node;
  node.add(0, 1);
  node.add_report(1, report_by(1, allreduce("w")));
  node.add(2, 4);
  CHECK(node.completed_report().code == Code::kMismatch);
  node.subtree.completed().clear();
  node.subtree.resolve(71);
  for (int source = 0; source < 3; ++source) node.add(source, 1);
  node.add_notice(0, {{"w", 0}, "twice"});
  CHECK(node.completed_report().code == Code::kDuplicateName);
}

TEST_CASE("Subtree: bits and full reports of one name match, in either order") {
  for (const bool bits_first : {true, false}) {
    Node node;
    if (bits_first) node.add_bit(0, 0);
    node.add_report(1, report_by(1, allreduce("a", {7})));
    if (!bits_first) node.add_bit(0, 0);
    CHECK(node.completed().empty());
    node.add_bit(2, 0);
    REQUIRE(node.completed() == std::vector<std::int32_t>{-1});
    const Report& merged = node.completed_report();
    CHECK(merged.code == Code::kMismatch);
    CHECK(merged.message.find("rank 1 submitted shape [7]") != std::string::npos);
    node.subtree.resolve({"a", 0});
    CHECK_FALSE(node.subtree.is_pending(0));
  }
}

TEST_CASE("Subtree: no words at a far place take no memory") {
  Node node;
  TickFrame tick;
  tick.first_word = ~std::uint32_t{0};
  node.take(tick, 1);
  CHECK(node.completed().empty());
}

TEST_CASE("Subtree: a report said twice counts once") {
  Node node;
  for (int again = 0; again < 3; ++again) {
    node.add_report(1, report_by(1, allreduce("new")));
  }
  node.add_report(0, report_by(0, allreduce("new")));
  CHECK(node.completed().empty());
  node.add_report(2, report_by(2, allreduce("new")));
  CHECK(node.completed().size() == 1);
}

TEST_CASE("Subtree: what a slot stood for goes on when the slot gets another use") {
  Node node;
  node.add_bit(0, 0);
  node.add_bit(1, 0);
  node.subtree.release_slot(0);
  node.cache.assign(0, std::make_shared<const Request>(allreduce("other")), 2);
  CHECK_FALSE(node.subtree.is_pending(0));
  CHECK(node.subtree.lacking({"a", 0}) == std::vector<int>{2});
  node.add_report(2, report_by(2, allreduce("a")));
  REQUIRE(node.completed() == std::vector<std::int32_t>{-1});
  CHECK(node.completed_report().code == Code::kOk);
}

TEST_CASE("Subtree: a joined source is ready for allreduces alone") {
  Node node;
  for (const int source : {0, 2}) {
    node.add_bit(source, 0);
    node.add_bit(source, 70);
  }
  node.join(1);
  REQUIRE(node.completed() == std::vector<std::int32_t>{0, -1});
  CHECK(node.completed_report().message ==
        "broadcast \"b\": rank 1 has joined, and only allreduce can go on without it");
  CHECK_FALSE(node.subtree.all_joined());
  node.join(0);
  node.join(2);
  CHECK(node.subtree.all_joined());
  CHECK(node.subtree.last_joined() == 2);
  node.subtree.end_join();
  CHECK_FALSE(node.subtree.all_joined());
}

TEST_CASE("Subtree: a notice is attached, or stale") {
  Node node;
  const Notice notice{{"a", 0}, "doubled"};
  node.add_notice(1, notice);  // stale
  node.add_bit(1, 0);
  node.add_notice(0, notice);  // of another source
  node.add_notice(1, notice);
  node.add_bit(0, 0);
  node.add_bit(2, 0);
  REQUIRE(node.subtree.completed().reports.size() == 1);
  CHECK(node.completed_report().code == Code::kDuplicateName);
  CHECK(node.completed_report().message == "doubled");
}

TEST_CASE_FIXTURE(InnerParts, "Subtree: a notice of what the parent knows already goes up, too") {
  const Notice notice{{"w", 0}, "doubled"};
  REQUIRE(submit(allreduce("w")).ok());
  for (const int source : {1, 2}) {
    TickFrame tick;
    tick.reports = {report_by(source == 1 ? 5 : 6, allreduce("w"))};
    subtree.take(tick, source);
  }
  TickFrame tick;
  tick.notices = {notice};
  subtree.take(tick, 1);
  CHECK(sender.tick().notices.size() == 1);
  CHECK(sender.tick().reports.at(0).code == Code::kOk);
}

TEST_CASE_FIXTURE(InnerParts, "Subtree: the parent hears of what the whole subtree has submitted") {
  REQUIRE(submit(allreduce("w")).ok());
  CHECK(sent().empty());
  for (const int source : {1, 2}) {
    TickFrame tick;
    tick.reports.push_back(report_by(source == 1 ? 5 : 6, allreduce("w")));
    REQUIRE(subtree.check(tick, source, 0).ok());
    subtree.take(tick, source);
  }
  const auto out = sent();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 0);
  FrameReader reader;
  REQUIRE(reader.read(out[0].bytes).value() == FrameKind::kTick);
  CHECK(reader.tick.reports.size() == 1);
  CHECK(sent().empty());
}

TEST_CASE_FIXTURE(InnerParts, "Subtree: what does not fit what was agreed is refused") {
  TickFrame tick;
  tick.acked = 1;
  CHECK_FALSE(subtree.check(tick, 1, 0).ok());
  tick.acked = 0;
  tick.reports.push_back(report_by(9, allreduce("w")));
  CHECK_FALSE(subtree.check(tick, 1, 0).ok());
  TickFrame stranger;
  stranger.leaver = 9;
  CHECK_FALSE(subtree.check(stranger, 1, 0).ok());
  CHECK(sent().empty());
}

TEST_CASE_FIXTURE(InnerParts,
                  "Subtree: reports that cross a failure are dropped, until it is known") {
  subtree.note_failed({"w", 0}, 1);
  TickFrame tick;
  tick.reports = {report_by(5, allreduce("w"))};
  subtree.take(tick, 1);
  CHECK(subtree.lacking({"w", 0}) == std::vector<int>{5, 6});
  CHECK(subtree.forget_acked(1) == 0);
  CHECK(subtree.has_failed());
  for (const int source : {1, 2}) {
    TickFrame later;
    later.acked = 1;
    subtree.take(later, source);
  }
  CHECK(subtree.forget_acked(1) == 1);
  CHECK_FALSE(subtree.has_failed());
}

}  // namespace ronde
