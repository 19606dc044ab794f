#include "core/engine/queues/queues.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

struct QueuesFixture : test::EngineParts {
  OperationPtr submit(const SetQueuePtr& queue, const char* name) {
    const auto operation = tasks.submit(queue, test::sum_of(name, values), true);
    CHECK(tasks.run());
    return operation;
  }
  std::vector<float> values = {1.0F};
};

}  // namespace

TEST_CASE_FIXTURE(QueuesFixture, "Queues: a queue is found from add to remove") {
  CHECK(queues.find(3) == nullptr);
  const auto queue = add_queue(3, {0});
  CHECK(queues.find(3) == queue);
  CHECK(queues.all() == std::vector{queue});
  CHECK(queues.remove(3) == queue);
  CHECK(queues.find(3) == nullptr);
  CHECK(queues.remove(3) == nullptr);
}

TEST_CASE_FIXTURE(QueuesFixture, "Queues: the driving thread works on a queue from start to stop") {
  const auto queue = add_queue(3, {0});
  CHECK(queues.driven(3) == queue.get());
  CHECK(queues.driven(0) == nullptr);
  queues.stop(queue);
  CHECK(queues.driven(3) == nullptr);
  CHECK(queues.driven().empty());
}

TEST_CASE_FIXTURE(QueuesFixture, "Queues: agreed work of all sets runs, and they are idle then") {
  const auto first = submit(add_queue(0, {0}), "a");
  const auto second = submit(add_queue(1, {0}), "b");
  CHECK_FALSE(queues.idle());
  REQUIRE(queues.collect_agreed());
  queues.run_agreed(false);
  while (!first->done() || !second->done()) std::this_thread::yield();
  CHECK(queues.idle());
  CHECK_FALSE(queues.collect_agreed());
}

TEST_CASE_FIXTURE(QueuesFixture, "Queues: work runs here only where no other set has any") {
  const auto lone = add_queue(0, {0});
  const auto shared = add_queue(1, {0, 1});
  const auto first = submit(lone, "a");
  REQUIRE(queues.collect_agreed());
  queues.run_agreed(true);
  CHECK(first->done());  // at once
  CHECK_FALSE(queues.executing());

  const auto waiting = submit(shared, "b");
  const auto second = submit(lone, "c");
  REQUIRE(queues.collect_agreed());
  queues.run_agreed(true);
  while (!second->done()) std::this_thread::yield();  // by the queue's thread
  CHECK_FALSE(waiting->done());
}

TEST_CASE_FIXTURE(QueuesFixture, "Queues: a stall limit comes due at the next deadline") {
  SetQueueOptions options = queue_options(0, {0, 1});
  options.member.stall.error = std::chrono::milliseconds(1);
  const auto queue = std::make_shared<SetQueue>(std::move(options));
  REQUIRE(queues.start(queue).ok());
  queues.update_deadline();
  CHECK(queues.next_deadline() == kForever);
  CHECK_FALSE(queues.come_due());
  const auto operation = submit(queue, "late");
  queues.update_deadline();
  REQUIRE(queues.next_deadline() != kForever);
  while (!queues.come_due()) std::this_thread::yield();
  queues.send_negotiations();
  CHECK(kinds_sent_to(1).front() == EnginePart::kNegotiation);  // asks what rank 1 has submitted
}

TEST_CASE_FIXTURE(QueuesFixture, "Queues: pending operations are described, and fail together") {
  const auto operation = submit(add_queue(1, {0, 1}), "late");
  const auto lines = queues.describe_pending();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("late") != std::string::npos);
  queues.fail_pending(Status(Code::kAborted, "the end"));
  REQUIRE(operation->done());
  CHECK(operation->status().message() == "the end");
}

}  // namespace ronde
