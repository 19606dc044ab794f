#include "core/engine/driving/progress.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

struct ProgressFixture : test::EngineParts {
  OperationPtr submit(const SetQueuePtr& queue, const char* name = "w") {
    return tasks.submit(queue, test::sum_of(name, values), true);
  }
  std::vector<float> values = {1.0F};
};

}  // namespace

TEST_CASE_FIXTURE(ProgressFixture,
                  "Progress: a step with nothing to do says so, and kicks nobody") {
  CHECK_FALSE(progress.step());
  CHECK(channel.kicks == 0);
  CHECK(progress.next_deadline() == kForever);
}

TEST_CASE_FIXTURE(ProgressFixture, "Progress: one step brings a lone operation to its end") {
  const auto operation = submit(add_queue(0, {0}));
  progress.set_may_run(true);
  CHECK(progress.step());
  CHECK(operation->done());
  CHECK(executed == 1);
  CHECK_FALSE(progress.step());
}

TEST_CASE_FIXTURE(ProgressFixture,
                  "Progress: work runs elsewhere where the thread may not run it") {
  const auto operation = submit(add_queue(0, {0}));
  CHECK(progress.step());
  while (!operation->done()) std::this_thread::yield();
  CHECK(executed == 1);
}

TEST_CASE_FIXTURE(ProgressFixture, "Progress: work runs elsewhere while frames wait for room") {
  channel.has_room = false;
  progress.set_may_run(true);
  (void)add_queue(1, {0});
  const auto operation = submit(queues.find(1));
  CHECK(progress.step());
  while (!operation->done()) std::this_thread::yield();
  while (queues.executing()) std::this_thread::yield();
  CHECK(channel.kicks == 1);
}

TEST_CASE_FIXTURE(ProgressFixture,
                  "Progress: a submission goes to the other rank, its answer ends it") {
  test::EngineParts peer(1);
  const auto mine = submit(add_queue(0, {0, 1}));
  const auto theirs = peer.tasks.submit(peer.add_queue(0, {0, 1}), test::sum_of("w", values), true);
  progress.set_may_run(true);
  peer.progress.set_may_run(true);
  test::exchange_frames(*this, peer);
  CHECK(mine->done());
  CHECK(theirs->done());
}

TEST_CASE_FIXTURE(ProgressFixture, "Progress: a stall is reported once its warning is out") {
  SetQueueOptions options = queue_options(0, {0, 1});
  options.member.stall.warning = std::chrono::milliseconds(1);
  const auto queue = std::make_shared<SetQueue>(std::move(options));
  REQUIRE(queues.start(queue).ok());
  test::EngineParts peer(1);
  (void)peer.add_queue(0, {0, 1});
  const auto operation = submit(queue);
  const TimePoint give_up = now() + std::chrono::seconds(20);
  while (stalls == 0 && now() < give_up) test::exchange_frames(*this, peer);
  CHECK(stalls > 0);
  CHECK(meter.stall_warnings.get() >= static_cast<std::uint64_t>(stalls));
  queues.fail_pending(Status(Code::kAborted, "the end"));
}

}  // namespace ronde
