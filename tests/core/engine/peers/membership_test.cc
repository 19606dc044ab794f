#include "core/engine/peers/membership.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/engine/frames/frame.h"
#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

struct FailingParts : test::EngineParts {
  using EngineParts::EngineParts;
  void fail(const Status& reason) {
    abort->abort(reason);
    membership.end_all();
  }
  const Status broken{Code::kInternal, "a bug"};
};

struct MembershipFixture : FailingParts {
  MembershipFixture() : FailingParts(0, 3) {}
  OperationPtr pending() {
    auto operation = tasks.submit(add_queue(0, {0, 1, 2}), test::sum_of("w", values), true);
    CHECK(tasks.run());
    return operation;
  }
  std::vector<float> values = {1.0F};
};

}  // namespace

TEST_CASE_FIXTURE(MembershipFixture, "Membership: a failure ends what is pending, in the driver") {
  const auto operation = pending();
  abort->abort(broken);
  CHECK(membership.job_status().message() == "a bug");
  CHECK_FALSE(operation->done());
  CHECK(progress.step());
  REQUIRE(operation->done());
  CHECK(operation->status().message() == "a bug");
}

TEST_CASE_FIXTURE(MembershipFixture, "Membership: the first failure stays, and is told once") {
  fail(broken);
  fail(Status(Code::kInternal, "another"));
  CHECK(membership.job_status().message() == "a bug");
  CHECK(kinds_sent_to(1) == std::vector{EnginePart::kFailure});
  CHECK(kinds_sent_to(2) == std::vector{EnginePart::kFailure});
}

TEST_CASE_FIXTURE(MembershipFixture,
                  "Membership: a rank that shuts down breaks nothing for others") {
  fail(Status(Code::kAborted, "the runtime shuts down"));
  CHECK(channel.sent.empty());
}

TEST_CASE_FIXTURE(MembershipFixture,
                  "Membership: another rank's failure ends all, not told again") {
  const auto operation = pending();
  REQUIRE(membership.on_failure_frame(1, make_failure(broken)).ok());
  membership.end_all();
  CHECK(operation->status().message() == "a bug");
  CHECK(channel.sent.empty());
  CHECK(membership.on_failure_frame(1, {}).code() == Code::kInvalidArgument);
}

namespace {

/// Rank 2 of two hosts with two ranks each, and a third host with one.
struct SpreadingFixture : FailingParts {
  SpreadingFixture() : FailingParts(2, 5) { channel.set_hosts({0, 0, 1, 1, 2}); }
  std::vector<int> told() {
    std::vector<int> ranks;
    for (const auto& frame : std::exchange(channel.sent, {})) ranks.push_back(frame.rank);
    return ranks;
  }
};

}  // namespace

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: a failure goes to this host and up the tree") {
  fail(broken);
  CHECK(told() == std::vector{0, 3});
}

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: another host's failure is passed on here") {
  REQUIRE(membership.on_failure_frame(0, make_failure(broken)).ok());
  membership.end_all();
  CHECK(told() == std::vector{3});
}

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: this host's failure is passed on to others") {
  REQUIRE(membership.on_failure_frame(3, make_failure(broken)).ok());
  membership.end_all();
  CHECK(told() == std::vector{0});
}

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: who takes the place of one that left is told") {
  fail(broken);
  CHECK(told() == std::vector{0, 3});
  membership.on_left(0, Status(Code::kRankFailure, "rank 0 has left"));
  CHECK(told() == std::vector{1});
  membership.on_left(1, Status(Code::kRankFailure, "rank 1 has left"));
  CHECK(told() == std::vector{4});
}

TEST_CASE_FIXTURE(MembershipFixture, "Membership: no answer comes from a rank that has left") {
  CHECK(membership.failure_of(2).ok());
  membership.on_left(2, Status(Code::kRankFailure, "rank 2 has left"));
  CHECK(membership.failure_of(2).message() == "rank 2 has left");
  CHECK(membership.failure_of(1).ok());
  abort->abort(broken);
  CHECK(membership.failure_of(1).message() == "a bug");
}

TEST_CASE_FIXTURE(MembershipFixture,
                  "Membership: a departure wakes callers, fails their messages") {
  std::vector<std::byte> data(1);
  const auto receive = messages.recv(2, 0, data, nullptr);
  CHECK(tasks.run());
  REQUIRE(role.may_sleep(Sleeper::kCaller));
  membership.on_left(2, Status(Code::kRankFailure, "rank 2 has left"));
  CHECK(channel.wakes(Sleeper::kCaller) == 1);
  CHECK(receive->status().message() == "rank 2 has left");
}

TEST_CASE_FIXTURE(MembershipFixture, "Membership: a message of a job that broke before it ends") {
  abort->abort(broken);
  CHECK(progress.step());
  std::vector<std::byte> data(1);
  const auto receive = messages.recv(2, 0, data, nullptr);
  CHECK(progress.step());
  CHECK(receive->status().message() == "a bug");
}

TEST_CASE_FIXTURE(MembershipFixture, "Membership: leaving closes the queues, in the driver") {
  const auto queue = add_queue(0, {0});
  const auto left = membership.leave({queue}, "done");
  CHECK_FALSE(left->load());
  CHECK(tasks.run());
  CHECK(left->load());
  CHECK_FALSE(queues.collect_agreed());
  CHECK(queue->closed());
}

}  // namespace ronde
