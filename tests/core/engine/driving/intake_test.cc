#include "core/engine/driving/intake.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

struct IntakeFixture : test::EngineParts {
  SetQueuePtr lone_queue(SetId id) { return add_queue(id, {0}); }
  std::vector<float> values = {1.0F};
};

}  // namespace

TEST_CASE_FIXTURE(IntakeFixture, "Intake: the driving thread makes calls in the order given") {
  std::vector<int> called;
  intake.post([&] { called.push_back(1); });
  intake.post([&] { called.push_back(2); });
  CHECK_FALSE(intake.empty());
  CHECK(called.empty());
  CHECK(intake.run());
  CHECK(called == std::vector{1, 2});
  CHECK(intake.empty());
  CHECK_FALSE(intake.run());
}

TEST_CASE_FIXTURE(IntakeFixture, "Intake: a call may post another one, for the next run") {
  bool called = false;
  intake.post([&] { intake.post([&] { called = true; }); });
  CHECK(intake.run());
  CHECK_FALSE(called);
  CHECK(intake.run());
  CHECK(called);
}

TEST_CASE_FIXTURE(IntakeFixture,
                  "Intake: an operation reaches its queue and is recorded as submitted") {
  const auto queue = lone_queue(3);
  const auto operation = intake.submit(queue, test::sum_of("w", values), false);
  CHECK(queue->outstanding() == 1);
  CHECK(meter.kind(0).submitted.get() == 1);
  CHECK(flights.pending().front().name == "w");
  CHECK(flights.pending().front().set == 3);
  CHECK_FALSE(queue->collect_agreed());
  CHECK(intake.run());
  REQUIRE(queue->collect_agreed());
  queue->run_agreed(true);
  CHECK(operation->done());
  CHECK(queue->outstanding() == 0);
}

TEST_CASE_FIXTURE(IntakeFixture, "Intake: an operation that comes after the job broke fails") {
  const auto queue = lone_queue(0);
  const auto operation = intake.submit(queue, test::sum_of("w", values), false);
  abort->abort(Status(Code::kRankFailure, "rank 1 died"));
  CHECK(intake.run());
  REQUIRE(operation->done());
  CHECK(operation->status().message() == "rank 1 died");
  CHECK(queue->outstanding() == 0);
}

TEST_CASE_FIXTURE(IntakeFixture, "Intake: operations have tickets of their own") {
  const auto queue = lone_queue(0);
  const auto first = intake.submit(queue, test::sum_of("a", values), false);
  const auto second = intake.submit(queue, test::sum_of("b", values), false);
  const auto message = intake.make_message(kSendFlight, 8);
  CHECK(first->ticket() != second->ticket());
  CHECK(second->ticket() != message->ticket());
  CHECK(meter.kind(kSendFlight).submitted_bytes.get() == 8);
  CHECK(intake.run());
}

TEST_CASE_FIXTURE(IntakeFixture,
                  "Intake: the background thread is woken unless the caller will wait") {
  const auto queue = lone_queue(0);
  REQUIRE(role.may_sleep(Sleeper::kBackground));
  (void)intake.submit(queue, test::sum_of("a", values), true);
  CHECK(channel.wakes(Sleeper::kBackground) == 0);
  intake.wake_driver();
  CHECK(channel.wakes(Sleeper::kBackground) == 1);
  CHECK(intake.run());
}

TEST_CASE_FIXTURE(IntakeFixture, "Intake: no task of many threads is lost") {
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  int called = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) intake.post([&] { ++called; });
    });
  }
  while (called < kThreads * kEach) {
    if (!intake.run()) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(called == kThreads * kEach);
}

}  // namespace ronde
