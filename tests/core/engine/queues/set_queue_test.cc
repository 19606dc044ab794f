#include "core/engine/queues/set_queue.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/core/engine/engine_parts.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

/// Fails with a code of the test's choice.
class FailingExecutor final : public Executor {
 public:
  explicit FailingExecutor(Code code) : code_(code) {}
  Status execute(const Bundle&, const AbortToken&) override {
    return Status(code_, "failed").about({.rank = 1, .host = {}, .pid = 0});
  }

 private:
  const Code code_;
};

struct SetQueueFixture : test::EngineParts {
  SetQueuePtr failing_queue(Code code) {
    SetQueueOptions options = queue_options(0, {0});
    options.executor = std::make_unique<FailingExecutor>(code);
    options.topology = &channel.topology();
    return std::make_shared<SetQueue>(std::move(options));
  }
  OperationPtr submit(const SetQueuePtr& queue, Submission submission) {
    auto operation = tasks.submit(queue, std::move(submission), true);
    CHECK(tasks.run());
    return operation;
  }
  OperationPtr run(const SetQueuePtr& queue) {
    auto operation = submit(queue, test::sum_of("w", values));
    REQUIRE(queue->collect_agreed());
    queue->run_agreed(true);
    REQUIRE(operation->done());
    return operation;
  }
  std::vector<float> values = {1.0F};
};

}  // namespace

TEST_CASE_FIXTURE(SetQueueFixture, "SetQueue: an operation goes from submission to its end") {
  const auto queue = add_queue(0, {0});
  const auto operation = run(queue);
  CHECK(operation->status().ok());
  CHECK(queue->outstanding() == 0);
  CHECK(meter.kind(0).ended.get() == 1);
  CHECK(meter.bundles.get() == 1);
}

TEST_CASE_FIXTURE(SetQueueFixture, "SetQueue: a barrier ends with its agreement") {
  const auto queue = add_queue(0, {0});
  Submission barrier;
  barrier.request.kind = Collective::kBarrier;
  const auto operation = submit(queue, std::move(barrier));
  CHECK_FALSE(queue->collect_agreed());
  CHECK(operation->done());
  CHECK(executed == 0);
}

TEST_CASE_FIXTURE(SetQueueFixture, "SetQueue: an invalid submission ends at once") {
  const auto queue = add_queue(0, {0, 1});
  const auto first = submit(queue, test::sum_of("w", values));
  const auto second = submit(queue, test::sum_of("w", values));
  REQUIRE(second->done());
  CHECK(second->status().code() == Code::kDuplicateName);
  queue->fail_pending(Status(Code::kAborted, "the end"));
  CHECK(first->done());
}

TEST_CASE_FIXTURE(SetQueueFixture,
                  "SetQueue: an error that leaves the ranks apart breaks the job") {
  CHECK(run(failing_queue(Code::kInternal))->status().code() == Code::kInternal);
  CHECK(abort->status().code() == Code::kInternal);
}

TEST_CASE_FIXTURE(SetQueueFixture, "SetQueue: an error that all ranks get alike does not") {
  CHECK(run(failing_queue(Code::kMismatch))->status().code() == Code::kMismatch);
  CHECK(abort->status().ok());
}

TEST_CASE_FIXTURE(SetQueueFixture, "SetQueue: a rank's failure names its host, and is reported") {
  const auto operation = run(failing_queue(Code::kRankFailure));
  CHECK(operation->status().message() == "failed (pid 101 on host)");
  CHECK(lost_ranks == 1);
}

TEST_CASE_FIXTURE(SetQueueFixture, "SetQueue: it is closed once a rank has left it") {
  const auto queue = add_queue(0, {0, 1});
  const auto operation = submit(queue, test::sum_of("w", values));
  queue->member().leave("done");
  CHECK_FALSE(queue->collect_agreed());
  CHECK(queue->closed());
  CHECK(operation->status().code() == Code::kRankFailure);
}

}  // namespace ronde
