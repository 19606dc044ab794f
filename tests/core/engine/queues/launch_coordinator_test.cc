#include "core/engine/queues/launch_coordinator.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/core/engine/engine_parts.h"

namespace ronde {
namespace {

/// Waits for the bundle's turn: 1 where it came, 0 where there is none.
class TurnExecutor final : public Executor {
 public:
  explicit TurnExecutor(std::atomic<int>& turn) : turn_(turn) {}
  Status execute(const Bundle& bundle, const AbortToken& abort) override {
    auto turn = bundle.turn->wait(abort);
    turn_ = turn.ok() && *turn ? 1 : 0;
    return turn.status();
  }

 private:
  std::atomic<int>& turn_;
};

/// One of two ranks, with the global set and set 4, whose work is in device memory.
struct DeviceRank : test::EngineParts {
  explicit DeviceRank(int rank) : EngineParts(rank) {
    (void)add_queue(kGlobalSet, {0, 1});
    SetQueueOptions options = queue_options(4, {0, 1});
    options.executor = std::make_unique<TurnExecutor>(turn);
    queue = std::make_shared<SetQueue>(std::move(options));
    REQUIRE(queues.start(queue).ok());
  }
  OperationPtr submit_device_work() {
    Submission submission;
    submission.request.name = "w";
    submission.request.tensors = {{DType::kFloat32, {1}}};
    submission.request.device.kind = DeviceKind::kCuda;
    submission.inputs = {nullptr};
    submission.outputs = {nullptr};
    return tasks.submit(queue, std::move(submission), true);
  }

  SetQueuePtr queue;
  std::atomic<int> turn = -1;
};

}  // namespace

TEST_CASE("LaunchCoordinator: a coordinator asks rank 0 for its set's place") {
  test::EngineParts parts(1, 3);
  parts.queues.launches().ask(4);
  REQUIRE(parts.channel.sent.size() == 1);
  CHECK(parts.channel.sent[0].rank == 0);
  CHECK(parts.channel.sent[0].bytes == test::frame_of(EnginePart::kLaunch, 4));
}

TEST_CASE("LaunchCoordinator: rank 0 enters places once it has the global set") {
  test::EngineParts parts;
  parts.queues.launches().order(1, 4);
  CHECK_FALSE(parts.queues.launches().take_ordered());
  (void)parts.add_queue(kGlobalSet, {0});
  CHECK(parts.queues.launches().take_ordered());
  CHECK_FALSE(parts.queues.launches().take_ordered());
  parts.queues.launches().ask(4);  // as the coordinator of a set itself
  CHECK(parts.queues.launches().take_ordered());
  CHECK(parts.channel.sent.empty());
}

TEST_CASE("LaunchCoordinator: device work of a set gets its place on all ranks") {
  DeviceRank first(0);
  DeviceRank second(1);
  const auto one = first.submit_device_work();
  const auto other = second.submit_device_work();
  test::exchange_frames(first, second);
  while (!one->done() || !other->done()) std::this_thread::yield();
  CHECK(first.turn == 1);
  CHECK(second.turn == 1);
}

TEST_CASE("LaunchCoordinator: there is no place once a rank has left the global set") {
  DeviceRank first(0);
  DeviceRank second(1);
  (void)second.membership.leave({second.queues.find(kGlobalSet)}, "");
  test::exchange_frames(first, second);
  const auto one = first.submit_device_work();
  const auto other = second.submit_device_work();
  test::exchange_frames(first, second);
  while (!one->done() || !other->done()) std::this_thread::yield();
  CHECK(first.turn == 0);
  CHECK(second.turn == 0);
}

}  // namespace ronde
