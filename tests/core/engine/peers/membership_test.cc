#include "core/engine/peers/membership.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/engine/frames/frame.h"
#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

struct MembershipFixture : test::EngineParts {
  MembershipFixture() : EngineParts(0, 3) {}
  OperationPtr pending() {
    auto operation = tasks.submit(add_queue(0, {0, 1, 2}), test::sum_of("w", values), true);
    CHECK(tasks.run());
    return operation;
  }
  std::vector<float> values = {1.0F};
  const Status broken{Code::kInternal, "a bug"};
};

}  // namespace

TEST_CASE_FIXTURE(MembershipFixture, "Membership: a failure ends what is pending, in the driver") {
  const auto operation = pending();
  membership.fail(broken);
  CHECK(membership.job_status().message() == "a bug");
  CHECK_FALSE(operation->done());
  CHECK(tasks.run());
  REQUIRE(operation->done());
  CHECK(operation->status().message() == "a bug");
}

TEST_CASE_FIXTURE(MembershipFixture, "Membership: the first failure stays, and is told once") {
  membership.fail_now(broken);
  membership.fail_now(Status(Code::kInternal, "another"));
  CHECK(membership.job_status().message() == "a bug");
  CHECK(kinds_sent_to(1) == std::vector{EnginePart::kFailure});
  CHECK(kinds_sent_to(2) == std::vector{EnginePart::kFailure});
}

TEST_CASE_FIXTURE(MembershipFixture,
                  "Membership: a rank that shuts down breaks nothing for others") {
  membership.fail_now(Status(Code::kAborted, "the runtime shuts down"));
  CHECK(channel.sent.empty());
}

TEST_CASE_FIXTURE(MembershipFixture,
                  "Membership: another rank's failure ends all, not told again") {
  const auto operation = pending();
  REQUIRE(membership.on_failure_frame(1, make_failure(broken)).ok());
  CHECK(operation->status().message() == "a bug");
  CHECK(channel.sent.empty());
  CHECK(membership.on_failure_frame(1, {}).code() == Code::kInvalidArgument);
}

namespace {

/// Rank 2 of two hosts with two ranks each, and a third host with one.
struct SpreadingFixture : test::EngineParts {
  SpreadingFixture() : EngineParts(2, 5) { channel.set_hosts({0, 0, 1, 1, 2}); }
  std::vector<int> told() {
    std::vector<int> ranks;
    for (const auto& frame : std::exchange(channel.sent, {})) ranks.push_back(frame.rank);
    return ranks;
  }
  const Status broken{Code::kInternal, "a bug"};
};

}  // namespace

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: a failure goes to this host and up the tree") {
  membership.fail_now(broken);
  CHECK(told() == std::vector{0, 3});
}

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: another host's failure is passed on here") {
  REQUIRE(membership.on_failure_frame(0, make_failure(broken)).ok());
  CHECK(told() == std::vector{3});
}

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: this host's failure is passed on to others") {
  REQUIRE(membership.on_failure_frame(3, make_failure(broken)).ok());
  CHECK(told() == std::vector{0});
}

TEST_CASE_FIXTURE(SpreadingFixture, "Membership: who takes the place of one that left is told") {
  membership.fail_now(broken);
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
  membership.fail(broken);
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

TEST_CASE_FIXTURE(MembershipFixture, "Membership: leaving closes the queues, in the driver") {
  const auto queue = add_queue(0, {0});
  const auto left = membership.leave({queue}, "done");
  CHECK_FALSE(left->load());
  CHECK(tasks.run());
  CHECK(left->load());
  CHECK_FALSE(queues.collect_agreed());
  CHECK(queue->closed());
}

TEST_CASE_FIXTURE(MembershipFixture, "Membership: each lost rank is reported once in turn") {
  CHECK(membership.left_behind().ok());
  membership.note_left_behind(Status(Code::kRankFailure, "rank 1 died"));
  membership.note_left_behind(Status(Code::kRankFailure, "rank 1 died"));
  CHECK(left_behind == 1);
  membership.note_left_behind(Status(Code::kRankFailure, "rank 2 died"));
  CHECK(left_behind == 2);
  CHECK(membership.left_behind().message() == "rank 2 died");
}

}  // namespace ronde
