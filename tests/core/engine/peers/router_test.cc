#include "core/engine/peers/router.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/engine/frames/frame.h"
#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

using test::frame_of;

struct RouterFixture : test::EngineParts {
  void deliver(EnginePart kind, std::uint64_t id, std::span<const std::byte> payload = {}) {
    router.on_frame(1, frame_of(kind, id, payload));
  }
  /// The frame that rank 1's queue of a set sends when it submits "w".
  static std::vector<std::byte> submission_frame(SetId id) {
    test::EngineParts peer(1);
    std::vector<float> values = {1.0F};
    (void)peer.tasks.submit(peer.add_queue(id, {0, 1}), test::sum_of("w", values), true);
    CHECK(peer.progress.step());
    REQUIRE(peer.channel.sent.size() == 1);
    peer.queues.fail_pending(Status(Code::kAborted, "the end"));
    return peer.channel.sent.front().bytes;
  }
  OperationPtr submit(const SetQueuePtr& queue) {
    auto operation = tasks.submit(queue, test::sum_of("w", values), true);
    CHECK(tasks.run());
    return operation;
  }
  std::vector<float> values = {1.0F};
};

}  // namespace

TEST_CASE_FIXTURE(RouterFixture, "Router: a negotiation frame reaches the queue of its set") {
  const auto queue = add_queue(3, {0, 1});
  const auto operation = submit(queue);
  router.on_frame(1, submission_frame(3));
  REQUIRE(queues.collect_agreed());
  queues.run_agreed(true);
  CHECK(operation->done());
}

TEST_CASE_FIXTURE(RouterFixture, "Router: frames of a set that is not there yet wait for it") {
  router.on_frame(1, submission_frame(3));
  const auto operation = submit(add_queue(3, {0, 1}));
  REQUIRE(queues.collect_agreed());
  queues.run_agreed(true);
  CHECK(operation->done());
}

TEST_CASE_FIXTURE(RouterFixture, "Router: frames of a set that was removed are dropped") {
  queues.stop(add_queue(3, {0, 1}));
  router.on_frame(1, submission_frame(3));
  (void)submit(add_queue(3, {0, 1}));
  CHECK_FALSE(queues.collect_agreed());
  queues.fail_pending(Status(Code::kAborted, "the end"));
}

TEST_CASE_FIXTURE(RouterFixture,
                  "Router: an early frame that makes no sense is told with its set") {
  deliver(EnginePart::kNegotiation, 3, std::vector{std::byte{255}});
  CHECK(abort->status().ok());
  const auto queue = std::make_shared<SetQueue>(queue_options(3, {0, 1}));
  CHECK(queues.start(queue).code() == Code::kInvalidArgument);
}

TEST_CASE_FIXTURE(RouterFixture, "Router: a value of an exchange arrives and wakes callers") {
  test::EngineParts other(1);
  other.exchange.begin({9, 1}, {0, 1}, "theirs");
  exchange.begin({9, 1}, {0, 1}, "mine");
  REQUIRE(role.may_sleep(Sleeper::kCaller));
  REQUIRE(other.channel.sent.size() == 1);
  router.on_frame(1, other.channel.sent[0].bytes);
  CHECK(channel.wakes(Sleeper::kCaller) == 1);
  const auto both = exchange.take({9, 1});
  REQUIRE(both.has_value());
  CHECK(both->value() == std::vector<std::string>{"mine", "theirs"});
}

TEST_CASE_FIXTURE(RouterFixture, "Router: an exchange ends with the departure of its rank") {
  exchange.begin({9, 1}, {0, 1}, "mine");
  router.on_peer_left(1, Status(Code::kRankFailure, "rank 1 has left"));
  const auto outcome = exchange.take({9, 1});
  REQUIRE(outcome.has_value());
  CHECK(outcome->status().message() == "rank 1 has left");
}

TEST_CASE_FIXTURE(RouterFixture, "Router: a message about clocks reaches its handler") {
  deliver(EnginePart::kClock, 0, std::vector{std::byte{1}, std::byte{2}});
  CHECK(clock == std::vector{std::byte{1}, std::byte{2}});
  CHECK(channel.sent.empty());
  clock_answer = std::vector{std::byte{3}};
  deliver(EnginePart::kClock, 0, std::vector{std::byte{1}});
  REQUIRE(channel.sent.size() == 1);
  CHECK(channel.sent[0].rank == 1);
  CHECK(channel.sent[0].bytes == frame_of(EnginePart::kClock, 0, *clock_answer));
}

TEST_CASE_FIXTURE(RouterFixture, "Router: a rank that asks for a launch gets its place") {
  (void)add_queue(kGlobalSet, {0, 1});
  deliver(EnginePart::kLaunch, 4);
  CHECK(queues.launches().take_ordered());
}

TEST_CASE_FIXTURE(RouterFixture, "Router: failures, losses and departures reach the membership") {
  router.on_peer_left(1, Status(Code::kRankFailure, "rank 1 has left"));
  CHECK(membership.failure_of(1).message() == "rank 1 has left");
  CHECK(membership.job_status().ok());
  SUBCASE("a failure frame") {
    deliver(EnginePart::kFailure, 0, make_failure(Status(Code::kInternal, "broken")));
    CHECK(membership.job_status().message() == "broken");
  }
  SUBCASE("a lost rank") {
    router.on_peer_lost(1, Status(Code::kRankFailure, "rank 1 died"));
    CHECK(membership.job_status().message() == "rank 1 died");
  }
}

TEST_CASE_FIXTURE(RouterFixture,
                  "Router: a frame that makes no sense breaks the job, naming its sender") {
  SUBCASE("too short") { router.on_frame(1, std::vector{std::byte{1}}); }
  SUBCASE("a message") { deliver(EnginePart::kMessage, 0, std::vector{std::byte{1}}); }
  CHECK(membership.job_status().message().starts_with("rank 1 sent a frame"));
}

}  // namespace ronde
