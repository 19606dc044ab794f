#include "core/engine/queues/bundle_queue.h"

#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/ports/executor.h"
#include "tests/core/engine/fake_channel.h"

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

struct BundleQueueFixture {
  /// A queue that cuts bundles of more than 1 MiB.
  std::unique_ptr<BundleQueue> make_queue(bool coordinates) {
    return std::make_unique<BundleQueue>(
        BundleQueueOptions{.id = 3,
                           .members = 2,
                           .coordinates = coordinates,
                           .partition_bytes = 1 << 20,
                           .inline_bytes = 64 << 20,
                           .launches = &launches,
                           .on_device_work = [this] { ++device_work; },
                           .worker = {.executor = std::make_unique<BundleNotes>(ran),
                                      .abort = abort,
                                      .records = &records,
                                      .meter = &meter,
                                      .role = &role,
                                      .finish = [](const auto&...) {}}});
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

  std::vector<Bundle> ran;
  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  OperationRing records;
  Meter meter;
  LaunchOrder launches;
  test::FakeChannel channel;
  DrivingRole role{channel};
  int device_work = 0;
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
    CHECK(device_work == 1);
  }
  SUBCASE("another rank") {
    make_queue(false)->add(std::move(on_device));
    CHECK(device_work == 0);
  }
  SUBCASE("a broken job") {
    abort->abort(Status(Code::kAborted, "the end"));
    make_queue(true)->add(std::move(on_device));
    CHECK(device_work == 0);
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

}  // namespace ronde
