#include "core/engine/driving/driver.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

struct DriverFixture : test::EngineParts {
  DriverFixture() { await_background_sleep(); }
  ~DriverFixture() { driver.stop(); }

  /// The background thread has looked for tasks and sleeps.
  void await_background_sleep() {
    while (channel.waits(Sleeper::kBackground) == 0) std::this_thread::yield();
  }
  OperationPtr submit(const SetQueuePtr& queue) {
    return tasks.submit(queue, test::sum_of("w", values), true);
  }
  Status wait(const OperationPtr& operation, const WaitOptions& options = {}) {
    return driver.wait_until([&] { return operation->done(); }, options);
  }

  std::vector<float> values = {1.0F};
  Driver driver{channel,
                role,
                progress,
                membership,
                {.spin = std::chrono::microseconds(0), .far_deadline = std::chrono::seconds(10)}};
};

}  // namespace

TEST_CASE_FIXTURE(DriverFixture, "Driver: the background thread runs tasks while nobody waits") {
  std::atomic<bool> called = false;
  tasks.post([&] { called = true; });
  while (!called) std::this_thread::yield();
  CHECK(channel.wakes(Sleeper::kBackground) == 1);
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: a caller that waits drives itself and wakes no thread") {
  const auto operation = submit(add_queue(0, {0}));
  CHECK(wait(operation).ok());
  CHECK(executed == 1);
  CHECK(channel.wakes(Sleeper::kBackground) == 0);
  CHECK(channel.wakes(Sleeper::kCaller) == 0);
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: peers know whom to wake even if frames come last") {
  int looks = 0;
  const auto done = [&] {
    if (++looks == 3) {
      channel.incoming.push_back({1, test::frame_of(EnginePart::kClock, 0)});  // still unread
    }
    return looks >= 3;
  };
  CHECK(driver.wait_until(done, {}).ok());
  CHECK(channel.incoming.empty());
  CHECK(channel.named() == Sleeper::kBackground);
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: a caller with a near deadline leaves work to the queue") {
  const auto operation = submit(add_queue(0, {0}));
  WaitOptions options;
  options.deadline = now() + std::chrono::seconds(5);
  CHECK(wait(operation, options).ok());  // it was told of the end while it slept
  CHECK(executed == 1);
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: a wait ends at its deadline, and the operation goes on") {
  const auto operation = submit(add_queue(0, {0, 1}));
  WaitOptions options;
  options.deadline = now() + std::chrono::milliseconds(5);
  CHECK(wait(operation, options).code() == Code::kTimeout);
  CHECK_FALSE(operation->done());
  CHECK(abort->status().ok());
  break_job(Status(Code::kAborted, "the end"));
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: an interrupt wakes a caller that sleeps") {
  const auto operation = submit(add_queue(0, {0, 1}));
  std::thread interrupter([&] {
    while (channel.waits(Sleeper::kCaller) == 0) std::this_thread::yield();
    driver.interrupt();
  });
  CHECK(wait(operation).code() == Code::kInterrupted);
  interrupter.join();
  break_job(Status(Code::kAborted, "the end"));
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: a wait's own check may end it") {
  const auto operation = submit(add_queue(0, {0, 1}));
  WaitOptions options;
  options.interrupt = [] { return Status(Code::kInterrupted, "Ctrl-C"); };
  CHECK(wait(operation, options).message() == "Ctrl-C");
  break_job(Status(Code::kAborted, "the end"));
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: a task wakes a caller that sleeps, which runs it") {
  std::atomic<bool> called = false;
  std::thread::id ran;
  std::thread poster([&] {
    while (channel.waits(Sleeper::kCaller) == 0) std::this_thread::yield();
    tasks.post([&] {
      ran = std::this_thread::get_id();
      called = true;
    });
  });
  CHECK(driver.wait_until([&] { return called.load(); }, {}).ok());
  poster.join();
  CHECK(ran == std::this_thread::get_id());
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: help ends a lone operation in the caller's thread") {
  const auto operation = submit(add_queue(0, {0}));
  REQUIRE(driver.should_help());
  driver.help(*operation, now() + std::chrono::seconds(20));
  CHECK(operation->done());
  CHECK(channel.wakes(Sleeper::kBackground) == 0);
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: help in vain makes later submissions skip it") {
  const auto operation = submit(add_queue(0, {0, 1}));
  driver.help(*operation, now());
  CHECK_FALSE(operation->done());
  CHECK_FALSE(driver.should_help());
  CHECK(driver.should_help());
  break_job(Status(Code::kAborted, "the end"));
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: help leaves the operation to a thread that drives") {
  REQUIRE(role.try_take());
  REQUIRE(role.may_sleep(Sleeper::kCaller));
  const auto operation = submit(add_queue(0, {0}));
  const auto woken = channel.wakes(Sleeper::kCaller);
  REQUIRE(role.try_take() == false);
  driver.help(*operation, now() + std::chrono::seconds(20));
  CHECK_FALSE(operation->done());
  CHECK(woken == 1);
  role.release(false);
  while (!operation->done()) std::this_thread::yield();  // by the background thread
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: it stops only once callers have gone") {
  std::atomic<bool> entered = false;
  std::atomic<bool> stopped = false;
  std::atomic<bool> stopped_early = false;
  std::thread caller([&] {
    const Inside inside = driver.enter();
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stopped_early = stopped.load();
  });
  while (!entered) std::this_thread::yield();
  driver.stop();
  stopped = true;
  caller.join();
  CHECK_FALSE(stopped_early);
}

TEST_CASE_FIXTURE(DriverFixture, "Driver: a task that comes before it stops is run") {
  bool called = false;
  tasks.post([&] { called = true; });
  driver.stop();
  CHECK(called);
}

}  // namespace ronde
