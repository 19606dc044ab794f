#include "core/engine/queues/queue_worker.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/core/engine/fake_channel.h"

namespace ronde {
namespace {

/// Notes in which thread each bundle (told by its root) ran, and waits while `hold` is set.
class NotingExecutor final : public Executor {
 public:
  struct Notes {
    std::atomic<bool> hold{false};
    std::vector<std::pair<int, std::thread::id>> ran;
  };
  explicit NotingExecutor(Notes& notes) : notes_(notes) {}
  Status execute(const Bundle& bundle, const AbortToken&) override {
    while (notes_.hold) std::this_thread::yield();
    notes_.ran.emplace_back(bundle.root, std::this_thread::get_id());
    return {};
  }

 private:
  Notes& notes_;
};

QueuedBundle numbered(int number) {
  QueuedBundle ready;
  ready.root = number;
  Submission submission;
  submission.request.tensors.resize(1);
  ready.operations = {std::make_shared<Operation>(std::move(submission), 1)};
  return ready;
}

QueueWorkerOptions options(
    NotingExecutor::Notes& notes, std::shared_ptr<AbortToken> abort,
    FinishOperation finish = [](const auto&...) {}) {
  static OperationRing records;
  static test::FakeChannel channel;
  static DrivingRole role(channel);
  return {.executor = std::make_unique<NotingExecutor>(notes),
          .abort = std::move(abort),
          .records = &records,
          .role = &role,
          .finish = std::move(finish)};
}

}  // namespace

TEST_CASE("QueueWorker: a bundle runs here where it may and nothing stands before it") {
  NotingExecutor::Notes notes;
  {
    QueueWorker worker(options(notes, std::make_shared<AbortToken>()));
    worker.run_or_queue(numbered(1), true);
    worker.run_or_queue(numbered(2), false);
  }
  REQUIRE(notes.ran.size() == 2);
  CHECK(notes.ran[0].second == std::this_thread::get_id());
  CHECK(notes.ran[1].second != std::this_thread::get_id());
}

TEST_CASE("QueueWorker: a result that came with the agreement is handed out here, in order") {
  NotingExecutor::Notes notes;
  const auto brought = [](int number) {
    QueuedBundle bundle = numbered(number);
    bundle.result.resize(4);
    return bundle;
  };
  {
    QueueWorker worker(options(notes, std::make_shared<AbortToken>()));
    worker.run_or_queue(brought(1), false);
    REQUIRE(notes.ran.size() == 1);
    CHECK(notes.ran[0].second == std::this_thread::get_id());
    notes.hold = true;
    worker.run_or_queue(numbered(2), false);
    worker.run_or_queue(brought(3), false);  // must not overtake
    CHECK(worker.busy());
    notes.hold = false;
  }
  REQUIRE(notes.ran.size() == 3);
  CHECK(notes.ran[1].first == 2);
  CHECK(notes.ran[2].first == 3);
}

TEST_CASE("QueueWorker: order is kept, whichever thread executes") {
  NotingExecutor::Notes notes;
  {
    QueueWorker worker(options(notes, std::make_shared<AbortToken>()));
    notes.hold = true;
    worker.run_or_queue(numbered(1), false);
    worker.run_or_queue(numbered(2), true);  // must not overtake
    CHECK(worker.busy());
    notes.hold = false;
  }
  REQUIRE(notes.ran.size() == 2);
  CHECK(notes.ran[0].first == 1);
  CHECK(notes.ran[1].first == 2);
}

TEST_CASE("QueueWorker: aborted work ends with the abort's reason and is not executed") {
  NotingExecutor::Notes notes;
  auto abort = std::make_shared<AbortToken>();
  abort->abort(Status(Code::kRankFailure, "rank 1 died"));
  Status seen;
  QueueWorker worker(options(
      notes, abort, [&](const OperationPtr&, const Status& status, TimePoint) { seen = status; }));
  worker.run_or_queue(numbered(1), true);
  CHECK(seen.message() == "rank 1 died");
  CHECK(notes.ran.empty());
}

TEST_CASE("QueueWorker: waiters hear of a bundle's end once, after all of its operations") {
  NotingExecutor::Notes notes;
  test::FakeChannel channel;
  DrivingRole role(channel);
  CHECK(role.may_sleep(Sleeper::kCaller));
  int finished = 0;
  auto all = options(notes, std::make_shared<AbortToken>(), [&](const auto&...) {
    CHECK(channel.wakes(Sleeper::kCaller) == 0);
    ++finished;
  });
  all.role = &role;
  QueueWorker worker(std::move(all));
  QueuedBundle bundle = numbered(1);
  bundle.operations.push_back(numbered(2).operations.front());
  worker.run_or_queue(std::move(bundle), true);
  CHECK(finished == 2);
  CHECK(channel.wakes(Sleeper::kCaller) == 1);
}

}  // namespace ronde
