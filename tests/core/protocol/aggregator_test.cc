#include "core/protocol/aggregator.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

/// A node whose sources are the ranks 0, 1, 2, with "a" (slot 0) and a broadcast "b" (slot 70).
struct Node {
  Node() {
    for (int slot = 0; slot <= 70; ++slot) {
      Request request = allreduce(slot == 0 ? "a" : "x" + std::to_string(slot));
      if (slot == 70) request = request_for(Collective::kBroadcast, "b");
      cache.assign(slot, std::make_shared<const Request>(request), 1);
    }
  }

  static Report report(int rank, Request request) {
    Report made;
    made.rank = rank;
    made.request = std::make_shared<const Request>(std::move(request));
    return made;
  }

  std::vector<std::int32_t> completed() {
    std::vector<std::int32_t> order = aggregator.completed().order;
    return order;
  }

  ResponseCache cache{128};
  Aggregator aggregator{{0, 1, 2}, cache};
};

}  // namespace

TEST_CASE("Aggregator: a bit completes when all sources have set it, and only once") {
  Node node;
  node.aggregator.add_bit(0, 70);
  node.aggregator.add_bit(2, 70);
  node.aggregator.add_bit(2, 0);
  CHECK(node.completed().empty());
  CHECK(node.aggregator.is_pending(70));
  CHECK(node.aggregator.has(2, {"b", 0}));
  CHECK_FALSE(node.aggregator.has(1, {"b", 0}));
  node.aggregator.add_bit(1, 70);
  node.aggregator.add_bit(1, 70);
  CHECK(node.completed() == std::vector<std::int32_t>{70});
  CHECK(node.aggregator.is_complete({"b", 0}));
  node.aggregator.resolve_slot(70);
  CHECK_FALSE(node.aggregator.is_pending(70));
  CHECK(node.aggregator.is_pending(0));
}

namespace {

/// Node with a weighted allreduce "w" in slot 71.
struct WeightedNode : Node {
  WeightedNode() {
    Request request = allreduce("w");
    request.weight = 0.0;
    cache.assign(71, std::make_shared<const Request>(request), 1);
  }

  void add(int source, double weight) {
    Report known = report(source, {});
    known.slot = 71;
    known.request = cache.at(71);
    known.weight = weight;
    aggregator.add_report(source, known);
  }
};

}  // namespace

TEST_CASE("Aggregator: weights of a cached operation are added, each source's once") {
  WeightedNode node;
  for (const double step : {0.0, 1.0}) {
    node.add(2, 4 + step);
    node.add(2, 100);
    node.add(0, 1 + step);
    CHECK(node.completed().empty());
    node.add(1, 2 + step);
    node.add(1, 100);
    CHECK(node.completed() == std::vector<std::int32_t>{-1});
    const Report& sum = node.aggregator.completed().reports.at(0);
    CHECK(sum.weight == 7 + 3 * step);
    CHECK(sum.slot == 71);
    CHECK(sum.code == Code::kOk);
    node.aggregator.completed().clear();
    node.aggregator.resolve_slot(71);
    CHECK_FALSE(node.aggregator.is_pending(71));
  }
}

TEST_CASE("Aggregator: weights count, too, where a report is given in full or a rank has joined") {
  WeightedNode node;
  node.add(0, 1);
  Request request = allreduce("w");
  request.weight = 0.0;
  Report full = Node::report(1, request);
  full.weight = 2;
  node.aggregator.add_report(1, full);
  node.add(2, 4);
  CHECK(node.aggregator.completed().reports.at(0).weight == 7);
  node.aggregator.completed().clear();
  node.aggregator.resolve_slot(71);
  node.add(0, 8);
  node.add(2, 16);
  node.aggregator.join(1, 1);
  CHECK(node.aggregator.completed().reports.at(0).weight == 24);
}

TEST_CASE("Aggregator: a weighted operation meets a report without a weight, or a notice") {
  WeightedNode node;
  node.add(0, 1);
  node.aggregator.add_report(1, Node::report(1, allreduce("w")));
  node.add(2, 4);
  CHECK(node.aggregator.completed().reports.at(0).code == Code::kMismatch);
  node.aggregator.completed().clear();
  node.aggregator.resolve_slot(71);
  for (int source = 0; source < 3; ++source) node.add(source, 1);
  CHECK(node.aggregator.add_notice(0, {{"w", 0}, "twice"}) == NoticeResult::kAttached);
  CHECK(node.aggregator.completed().reports.at(0).code == Code::kDuplicateName);
}

TEST_CASE("Aggregator: bits and full reports of one name match, in either order") {
  for (const bool bits_first : {true, false}) {
    Node node;
    if (bits_first) node.aggregator.add_bit(0, 0);
    node.aggregator.add_report(1, Node::report(1, allreduce("a", {7})));
    if (!bits_first) node.aggregator.add_bit(0, 0);
    CHECK(node.completed().empty());
    node.aggregator.add_bit(2, 0);
    REQUIRE(node.completed() == std::vector<std::int32_t>{-1});
    const Report& merged = node.aggregator.completed().reports.at(0);
    CHECK(merged.code == Code::kMismatch);
    CHECK(merged.message.find("rank 1 submitted shape [7]") != std::string::npos);
    node.aggregator.resolve({"a", 0});
    CHECK_FALSE(node.aggregator.is_pending(0));
  }
}

TEST_CASE("Aggregator: no words at a far place take no memory") {
  Node node;
  node.aggregator.add_words(1, ~std::uint32_t{0}, {});
  CHECK(node.completed().empty());
}

TEST_CASE("Aggregator: a report said twice counts once") {
  Node node;
  for (int again = 0; again < 3; ++again) {
    node.aggregator.add_report(1, Node::report(1, allreduce("new")));
  }
  node.aggregator.add_report(0, Node::report(0, allreduce("new")));
  CHECK(node.completed().empty());
  node.aggregator.add_report(2, Node::report(2, allreduce("new")));
  CHECK(node.completed().size() == 1);
}

TEST_CASE("Aggregator: what a slot stood for goes on when the slot gets another use") {
  Node node;
  node.aggregator.add_bit(0, 0);
  node.aggregator.add_bit(1, 0);
  node.aggregator.release_slot(0);
  node.cache.assign(0, std::make_shared<const Request>(allreduce("other")), 2);
  CHECK_FALSE(node.aggregator.is_pending(0));
  CHECK(node.aggregator.has(1, {"a", 0}));
  node.aggregator.add_report(2, Node::report(2, allreduce("a")));
  REQUIRE(node.completed() == std::vector<std::int32_t>{-1});
  CHECK(node.aggregator.completed().reports[0].code == Code::kOk);
}

TEST_CASE("Aggregator: a joined source is ready for allreduces alone") {
  Node node;
  for (const int source : {0, 2}) {
    node.aggregator.add_bit(source, 0);
    node.aggregator.add_bit(source, 70);
  }
  node.aggregator.join(1, 1);
  REQUIRE(node.completed() == std::vector<std::int32_t>{0, -1});
  CHECK(node.aggregator.completed().reports[0].message ==
        "broadcast \"b\": rank 1 has joined, and only allreduce can go on without it");
  CHECK_FALSE(node.aggregator.all_joined());
  node.aggregator.join(0, 0);
  node.aggregator.join(2, 2);
  CHECK(node.aggregator.all_joined());
  CHECK(node.aggregator.last_joined() == 2);
  node.aggregator.leave_join();
  CHECK_FALSE(node.aggregator.all_joined());
}

TEST_CASE("Aggregator: a notice is attached, passed on or stale") {
  Node node;
  const Notice notice{{"a", 0}, "doubled"};
  CHECK(node.aggregator.add_notice(1, notice) == NoticeResult::kStale);
  node.aggregator.add_bit(1, 0);
  CHECK(node.aggregator.add_notice(0, notice) == NoticeResult::kStale);
  CHECK(node.aggregator.add_notice(1, notice) == NoticeResult::kAttached);
  node.aggregator.add_bit(0, 0);
  node.aggregator.add_bit(2, 0);
  REQUIRE(node.aggregator.completed().reports.size() == 1);
  CHECK(node.aggregator.completed().reports[0].code == Code::kDuplicateName);
  node.aggregator.completed().clear();  // taken
  CHECK(node.aggregator.add_notice(1, notice) == NoticeResult::kForwarded);
}

}  // namespace ronde
