#include "core/protocol/coordinator.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

/// One node of a set's tree.
struct TreeNode {
  TreeNode(int rank, std::vector<int> the_members, TreePlace the_place)
      : members(std::move(the_members)), place(std::move(the_place)), member(rank, members, 4) {}

  void submit(const Request& request) {
    Announcement told;
    REQUIRE(member.submit(request, ++tickets, {}, {}, told).ok());
    coordinator.submitted(std::move(told));
  }
  std::vector<Agreed> agreed() {
    coordinator.agree();
    std::vector<Batch> batches;
    coordinator.take_batches(batches);
    std::vector<Agreed> items;
    for (Batch& batch : batches)
      std::move(batch.items.begin(), batch.items.end(), std::back_inserter(items));
    return items;
  }
  std::vector<OutFrame> sent() {
    std::vector<OutFrame> out;
    coordinator.take_frames(out);
    return out;
  }

  const std::vector<int> members;
  const TreePlace place;
  Member member;
  OperationWatch watch{member.rank(), {}, member.own()};
  Coordinator coordinator{place, member, watch, nullptr};
  std::uint64_t tickets = 0;
};

/// The only rank of its set.
struct Root : TreeNode {
  Root() : TreeNode(0, {0}, {}) {}
};

/// Rank 3, which reports to rank 0 for itself, rank 5 and rank 6.
struct Inner : TreeNode {
  Inner() : TreeNode(3, {0, 3, 5, 6}, {0, {5, 6}}) {}
};

Report report_of(int rank) {
  Report report;
  report.rank = rank;
  report.request = std::make_shared<Request>(allreduce("w"));
  return report;
}

}  // namespace

TEST_CASE_FIXTURE(Root, "Coordinator: agreed in full once, and by the slot from then on") {
  for (int round = 0; round < 3; ++round) {
    submit(allreduce("w"));
    CHECK(agreed().size() == 1);
  }
  CHECK(coordinator.stats().full_agreements == 1);
  CHECK(coordinator.stats().cached_agreements == 2);
}

TEST_CASE_FIXTURE(Root, "Coordinator: higher priorities come first in a batch") {
  submit(allreduce("a"));
  Request urgent = allreduce("urgent");
  urgent.priority = 1;
  submit(urgent);
  const auto items = agreed();
  REQUIRE(items.size() == 2);
  CHECK(items[0].request.name == "urgent");
}

TEST_CASE_FIXTURE(Root, "Coordinator: a rank that leaves closes the set") {
  coordinator.leave(0, "done");
  CHECK(coordinator.closed().code() == Code::kRankFailure);
  CHECK(coordinator.closed().message() == "rank 0 has left the job: done");
  submit(allreduce("w"));
  CHECK(agreed().empty());
}

TEST_CASE_FIXTURE(Inner, "Coordinator: the parent hears of what the whole subtree has submitted") {
  submit(allreduce("w"));
  CHECK(sent().empty());
  for (const int source : {1, 2}) {
    TickFrame tick;
    tick.reports.push_back(report_of(source == 1 ? 5 : 6));
    REQUIRE(coordinator.check(tick, source).ok());
    coordinator.take_reports(tick, source);
    coordinator.take_changes(tick, source);
  }
  const auto out = sent();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 0);
  FrameReader reader;
  REQUIRE(reader.read(out[0].bytes).value() == FrameKind::kTick);
  CHECK(reader.tick.reports.size() == 1);
  CHECK(sent().empty());
}

TEST_CASE_FIXTURE(Inner, "Coordinator: what does not fit what was agreed is refused") {
  TickFrame tick;
  tick.acked = 1;
  CHECK_FALSE(coordinator.check(tick, 1).ok());
  tick.acked = 0;
  tick.reports.push_back(report_of(9));
  CHECK_FALSE(coordinator.check(tick, 1).ok());
  TickFrame stranger;
  stranger.leaver = 9;
  CHECK_FALSE(coordinator.check(stranger, 1).ok());
  BatchFrame batch;
  batch.sequence = 2;
  CHECK(coordinator.take(batch, {}).code() == Code::kInvalidArgument);
  CHECK(sent().empty());
}

TEST_CASE_FIXTURE(Inner, "Coordinator: a tick goes up without the empty words at its front") {
  coordinator.next_tick().open().words = {0, 0, 9};
  const auto out = sent();
  REQUIRE(out.size() == 1);
  CHECK(coordinator.next_tick().is_empty);
  CHECK(coordinator.next_tick().frame.words.empty());
  FrameReader reader;
  REQUIRE(reader.read(out[0].bytes).ok());
  CHECK(reader.tick.first_word == 2);
  CHECK(reader.tick.words == std::vector<std::uint64_t>{9});
  coordinator.next_tick().open().words = {0, 0};
  coordinator.leave(5, "");
  REQUIRE(reader.read(sent().at(0).bytes).ok());
  CHECK(reader.tick.first_word == 0);
  CHECK(reader.tick.words.empty());
  CHECK(reader.tick.leaver == 5);
}

TEST_CASE_FIXTURE(Inner, "Coordinator: a frame goes down to every child, made here or passed on") {
  coordinator.send_down(WarningFrame{{"late"}});
  const auto made = sent();
  REQUIRE(made.size() == 2);
  CHECK(made[0].to == 5);
  CHECK(made[1].to == 6);
  CHECK(made[0].bytes == made[1].bytes);
  coordinator.forward(made[0].bytes);
  const auto passed_on = sent();
  REQUIRE(passed_on.size() == 2);
  CHECK(passed_on[1].bytes == made[0].bytes);
  CHECK(coordinator.stats().frames_sent == 4);
}

}  // namespace ronde
