#include "core/engine/queues/task_queue.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

struct TaskQueueFixture : test::EngineParts {
  SetQueuePtr lone_queue(SetId id) { return add_queue(id, {0}); }
  std::vector<float> values = {1.0F};
};

}  // namespace

TEST_CASE_FIXTURE(TaskQueueFixture,
                  "TaskQueue: the driving thread makes calls in the order given") {
  std::vector<int> called;
  tasks.post([&] { called.push_back(1); });
  tasks.post([&] { called.push_back(2); });
  CHECK_FALSE(tasks.empty());
  CHECK(called.empty());
  CHECK(tasks.run());
  CHECK(called == std::vector{1, 2});
  CHECK(tasks.empty());
  CHECK_FALSE(tasks.run());
}

TEST_CASE_FIXTURE(TaskQueueFixture, "TaskQueue: a call may post another one, for the next run") {
  bool called = false;
  tasks.post([&] { tasks.post([&] { called = true; }); });
  CHECK(tasks.run());
  CHECK_FALSE(called);
  CHECK(tasks.run());
  CHECK(called);
}

TEST_CASE_FIXTURE(TaskQueueFixture,
                  "TaskQueue: an operation reaches its queue and is recorded as submitted") {
  const auto queue = lone_queue(3);
  const auto operation = tasks.submit(queue, test::sum_of("w", values), false);
  CHECK(queue->outstanding() == 1);
  CHECK(meter.kind(0).submitted.get() == 1);
  CHECK(records.pending().front().name == "w");
  CHECK(records.pending().front().set == 3);
  CHECK_FALSE(queue->collect_agreed());
  CHECK(tasks.run());
  REQUIRE(queue->collect_agreed());
  queue->run_agreed(true);
  CHECK(operation->done());
  CHECK(queue->outstanding() == 0);
}

TEST_CASE_FIXTURE(TaskQueueFixture,
                  "TaskQueue: an operation that comes after the job broke fails") {
  const auto queue = lone_queue(0);
  const auto operation = tasks.submit(queue, test::sum_of("w", values), false);
  abort->abort(Status(Code::kRankFailure, "rank 1 died"));
  CHECK(tasks.run());
  REQUIRE(operation->done());
  CHECK(operation->status().message() == "rank 1 died");
  CHECK(queue->outstanding() == 0);
}

TEST_CASE_FIXTURE(TaskQueueFixture, "TaskQueue: operations have tickets of their own") {
  const auto queue = lone_queue(0);
  const auto first = tasks.submit(queue, test::sum_of("a", values), false);
  const auto second = tasks.submit(queue, test::sum_of("b", values), false);
  const auto message = tasks.make_message(kSendKind, 8);
  CHECK(first->ticket() != second->ticket());
  CHECK(second->ticket() != message->ticket());
  CHECK(meter.kind(kSendKind).submitted_bytes.get() == 8);
  CHECK(tasks.run());
}

TEST_CASE_FIXTURE(TaskQueueFixture,
                  "TaskQueue: the background thread is woken unless the caller will wait") {
  const auto queue = lone_queue(0);
  REQUIRE(role.may_sleep(Sleeper::kBackground));
  (void)tasks.submit(queue, test::sum_of("a", values), true);
  CHECK(channel.wakes(Sleeper::kBackground) == 0);
  role.request_step();
  CHECK(channel.wakes(Sleeper::kBackground) == 1);
  CHECK(tasks.run());
}

TEST_CASE_FIXTURE(TaskQueueFixture, "TaskQueue: no task of many threads is lost") {
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  int called = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) tasks.post([&] { ++called; });
    });
  }
  while (called < kThreads * kEach) {
    if (!tasks.run()) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(called == kThreads * kEach);
}

}  // namespace ronde
