#include "core/engine/queues/bundle_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/core/engine/engine_parts.h"

namespace ronde {
namespace {

/// Notes the bundles that ran.
class BundleNotes final : public Executor {
 public:
  explicit BundleNotes(std::vector<Bundle>& ran) : ran_(ran) {}
  Status execute(const Bundle& bundle, const AbortToken&) override {
    ran_.push_back(bundle);
    return {};
  }

 private:
  std::vector<Bundle>& ran_;
};

/// Rank 1 of three.
struct BundleQueueFixture : test::EngineParts {
  BundleQueueFixture() : EngineParts(1, 3) {}

  /// A queue that cuts bundles of more than 1 MiB.
  std::unique_ptr<BundleQueue> make_queue(bool coordinates) {
    options = queue_options(3, {1, 2});
    options.partition_bytes = 1 << 20;
    options.inline_bytes = 64 << 20;
    options.executor = std::make_unique<BundleNotes>(ran);
    return std::make_unique<BundleQueue>(options, coordinates, [](const auto&...) {});
  }
  /// A bundle of one float32 tensor, of a rank that has joined.
  static QueuedBundle ready(std::int64_t count, std::int32_t priority = 0) {
    QueuedBundle ready;
    ready.kind = Collective::kAllreduce;
    ready.tensors.emplace_back().shape = {count};
    ready.operations = {nullptr};
    ready.priorities = {priority};
    ready.priority = priority;
    return ready;
  }
  static constexpr std::int64_t kMiB = 1 << 18;  // elements

  SetQueueOptions options;
  std::vector<Bundle> ran;
};

/// Notes in which thread each bundle (told by its root) ran, and waits while `hold` is set.
class ThreadNoter final : public Executor {
 public:
  struct Notes {
    std::atomic<bool> hold{false};
    std::vector<std::pair<int, std::thread::id>> ran;
  };
  explicit ThreadNoter(Notes& notes) : notes_(notes) {}
  Status execute(const Bundle& bundle, const AbortToken&) override {
    while (notes_.hold) std::this_thread::yield();
    notes_.ran.emplace_back(bundle.root, std::this_thread::get_id());
    return {};
  }

 private:
  Notes& notes_;
};

struct BundleThreadFixture : test::EngineParts {
  std::unique_ptr<BundleQueue> make_queue(FinishOperation finish = [](const auto&...) {}) {
    options = queue_options(0, {0});
    options.executor = std::make_unique<ThreadNoter>(notes);
    return std::make_unique<BundleQueue>(options, true, std::move(finish));
  }
  static QueuedBundle numbered(int number) {
    QueuedBundle ready;
    ready.root = number;
    Submission submission;
    submission.request.tensors.resize(1);
    ready.operations = {std::make_shared<Operation>(std::move(submission), 1)};
    return ready;
  }
  static void run(BundleQueue& queue, QueuedBundle bundle, bool alone) {
    queue.add(std::move(bundle));
    queue.run(alone);
  }

  SetQueueOptions options;
  ThreadNoter::Notes notes;
};

}  // namespace

TEST_CASE_FIXTURE(BundleQueueFixture,
                  "BundleQueue: small bundles run in the order added, numbered") {
  const auto queue = make_queue(true);
  CHECK_FALSE(queue->has_work());
  queue->add(ready(1));
  queue->add(ready(2));
  REQUIRE(queue->has_work());
  queue->run(true);
  CHECK_FALSE(queue->has_work());
  REQUIRE(ran.size() == 2);
  CHECK(ran[0].tensors[0].shape == Shape{1});
  CHECK(ran[0].id == ((std::uint64_t{3} << kBundleBits) | 1));
  CHECK(ran[1].id == ((std::uint64_t{3} << kBundleBits) | 2));
  CHECK(role.tasks() == 0);
}

TEST_CASE_FIXTURE(BundleQueueFixture,
                  "BundleQueue: a result that came with the agreement is neither cut nor paced") {
  const auto queue = make_queue(true);
  QueuedBundle brought = ready(4 * kMiB);
  brought.result.resize(4);
  queue->add(std::move(brought));
  queue->run(true);
  REQUIRE(ran.size() == 1);
  CHECK(ran[0].partition == 0);
  CHECK(role.tasks() == 0);
}

TEST_CASE_FIXTURE(BundleQueueFixture,
                  "BundleQueue: partitions run as the coordinator lets them go") {
  const auto queue = make_queue(true);
  queue->add(ready(4 * kMiB));
  CHECK_FALSE(queue->has_work());
  CHECK(queue->pace() == 2);
  CHECK(queue->pace() == 0);  // two are under way
  queue->release(2);
  queue->run(true);
  CHECK(ran.size() == 2);
  CHECK(role.tasks() == 2);
  CHECK(queue->pace() == 2);
  queue->release(2);
  queue->run(true);
  REQUIRE(ran.size() == 4);
  CHECK(ran[3].partition == 4);
  CHECK(queue->pace() == 0);
}

TEST_CASE_FIXTURE(BundleQueueFixture, "BundleQueue: urgent work overtakes partitions that wait") {
  const auto queue = make_queue(true);
  queue->add(ready(4 * kMiB));
  queue->add(ready(1, 5));
  queue->release(0);
  queue->run(true);
  REQUIRE(ran.size() == 1);
  CHECK(ran[0].tensors[0].shape == Shape{1});
}

TEST_CASE_FIXTURE(BundleQueueFixture, "BundleQueue: nothing is paced once the set is closed") {
  const auto queue = make_queue(false);
  queue->add(ready(4 * kMiB));
  queue->open();
  queue->run(true);
  CHECK(ran.size() == 4);
  CHECK(role.tasks() == 0);  // another rank coordinates
}

TEST_CASE_FIXTURE(BundleQueueFixture,
                  "BundleQueue: the coordinator asks for the place of device work") {
  QueuedBundle on_device = ready(1);
  on_device.device.kind = DeviceKind::kCuda;
  SUBCASE("coordinator") {
    make_queue(true)->add(std::move(on_device));
    CHECK(kinds_sent_to(0) == std::vector{EnginePart::kLaunch});
  }
  SUBCASE("another rank") {
    make_queue(false)->add(std::move(on_device));
    CHECK(channel.sent.empty());
  }
  SUBCASE("a broken job") {
    abort->abort(Status(Code::kAborted, "the end"));
    make_queue(true)->add(std::move(on_device));
    CHECK(channel.sent.empty());
  }
}

TEST_CASE_FIXTURE(BundleQueueFixture,
                  "BundleQueue: device work has a turn, refused after the end") {
  const auto queue = make_queue(true);
  QueuedBundle on_device = ready(1);
  on_device.device.kind = DeviceKind::kCuda;
  queue->end_launches();
  queue->add(std::move(on_device));
  queue->run(false);
  while (queue->executing()) std::this_thread::yield();
  REQUIRE(ran.size() == 1);
  CHECK(ran[0].turn != nullptr);
}

TEST_CASE_FIXTURE(BundleThreadFixture,
                  "BundleQueue: a bundle runs here where it may and nothing stands before it") {
  {
    const auto queue = make_queue();
    run(*queue, numbered(1), true);
    run(*queue, numbered(2), false);
  }
  REQUIRE(notes.ran.size() == 2);
  CHECK(notes.ran[0].second == std::this_thread::get_id());
  CHECK(notes.ran[1].second != std::this_thread::get_id());
}

TEST_CASE_FIXTURE(
    BundleThreadFixture,
    "BundleQueue: a result that came with the agreement is handed out here, in order") {
  const auto brought = [](int number) {
    QueuedBundle bundle = numbered(number);
    bundle.result.resize(4);
    return bundle;
  };
  {
    const auto queue = make_queue();
    run(*queue, brought(1), false);
    REQUIRE(notes.ran.size() == 1);
    CHECK(notes.ran[0].second == std::this_thread::get_id());
    notes.hold = true;
    run(*queue, numbered(2), false);
    run(*queue, brought(3), false);  // must not overtake
    CHECK(queue->executing());
    notes.hold = false;
  }
  REQUIRE(notes.ran.size() == 3);
  CHECK(notes.ran[1].first == 2);
  CHECK(notes.ran[2].first == 3);
}

TEST_CASE_FIXTURE(BundleThreadFixture, "BundleQueue: order is kept, whichever thread executes") {
  {
    const auto queue = make_queue();
    notes.hold = true;
    run(*queue, numbered(1), false);
    run(*queue, numbered(2), true);  // must not overtake
    CHECK(queue->executing());
    notes.hold = false;
  }
  REQUIRE(notes.ran.size() == 2);
  CHECK(notes.ran[0].first == 1);
  CHECK(notes.ran[1].first == 2);
}

TEST_CASE_FIXTURE(BundleThreadFixture,
                  "BundleQueue: aborted work ends with the abort's reason and is not executed") {
  abort->abort(Status(Code::kRankFailure, "rank 1 died"));
  Status seen;
  const auto queue =
      make_queue([&](const OperationPtr&, const Status& status, TimePoint) { seen = status; });
  run(*queue, numbered(1), true);
  CHECK(seen.message() == "rank 1 died");
  CHECK(notes.ran.empty());
}

TEST_CASE_FIXTURE(BundleThreadFixture,
                  "BundleQueue: waiters hear of a bundle's end once, after all of its operations") {
  CHECK(role.may_sleep(Sleeper::kCaller));
  int finished = 0;
  const auto queue = make_queue([&](const auto&...) {
    CHECK(channel.wakes(Sleeper::kCaller) == 0);
    ++finished;
  });
  QueuedBundle bundle = numbered(1);
  bundle.operations.push_back(numbered(2).operations.front());
  run(*queue, std::move(bundle), true);
  CHECK(finished == 2);
  CHECK(channel.wakes(Sleeper::kCaller) == 1);
}

}  // namespace ronde
