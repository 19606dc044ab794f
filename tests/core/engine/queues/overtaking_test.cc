// Priorities and partitions through whole engines: what runs in which order, on all ranks alike.
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>

#include "core/engine/engine.h"
#include "tests/core/engine/thread_executor.h"
#include "tests/support/local/factory.h"
#include "tests/support/local/hub.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

using test::MeetingPlace;
using test::run_ranks;
using test::ThreadExecutor;

constexpr std::size_t kPartition = 64 << 10;
constexpr std::int64_t kLarge = 16 * kPartition / sizeof(float);

/// Sums as ThreadExecutor does, notes what it ran, and waits while `hold` is set.
class OrderNoter final : public Executor {
 public:
  OrderNoter(std::shared_ptr<MeetingPlace> place, std::vector<std::string>& ran,
             const std::atomic<bool>& hold)
      : inner_(std::move(place)), ran_(ran), hold_(hold) {}
  Status execute(const Bundle& bundle, const AbortToken& abort) override {
    while (hold_ && !abort.aborted()) std::this_thread::yield();
    std::string names;
    for (const BundleTensor& tensor : bundle.tensors) names += tensor.name;
    ran_.push_back(names);
    return inner_.execute(bundle, abort);
  }

 private:
  ThreadExecutor inner_;
  std::vector<std::string>& ran_;
  const std::atomic<bool>& hold_;
};

/// One rank of a job of threads with partitions.
struct Rank {
  Rank(const std::shared_ptr<LocalHub>& hub, int rank, int size,
       const std::shared_ptr<MeetingPlace>& place)
      : channel(create_local_channel(hub, rank)) {
    EngineOptions options;
    options.channel = channel.get();
    options.abort = abort;
    options.fusion_threshold_bytes = 1 << 16;
    options.partition_bytes = kPartition;
    options.inline_bytes = 1 << 12;
    options.cache_capacity = 64;
    engine = std::make_unique<Engine>(options);
    std::vector<int> everyone(static_cast<std::size_t>(size));
    std::iota(everyone.begin(), everyone.end(), 0);
    engine->add_set(kGlobalSet, everyone, std::make_unique<OrderNoter>(place, ran, hold));
  }
  ~Rank() {
    hold = false;
    if (engine) engine->leave(now() + std::chrono::seconds(20));
    engine.reset();
    channel->close();
  }

  OperationPtr submit(const std::string& name, std::vector<float>& values, int priority,
                      ReduceOp op = ReduceOp::kSum) {
    Submission submission;
    submission.request.name = name;
    submission.request.priority = priority;
    submission.request.op = op;
    submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(values.size())}}};
    submission.inputs = {values.data()};
    submission.outputs = {values.data()};
    return *engine->submit(kGlobalSet, std::move(submission));
  }

  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  std::vector<std::string> ran;
  std::atomic<bool> hold{false};
  std::unique_ptr<ControlChannel> channel;
  std::unique_ptr<Engine> engine;
};

std::size_t position(const std::vector<std::string>& ran, const std::string& name) {
  return static_cast<std::size_t>(std::find(ran.begin(), ran.end(), name) - ran.begin());
}

}  // namespace

TEST_CASE("Overtaking: urgent work runs between the partitions of a large tensor, alike on all") {
  for (const int size : {2, 3}) {
    const auto hub = create_local_hub(size, {});
    const auto place = std::make_shared<MeetingPlace>(size);
    std::vector<std::vector<std::string>> ran(static_cast<std::size_t>(size));
    std::atomic<int> submitted{0};
    run_ranks(size, [&](int r) {
      Rank rank(hub, r, size, place);
      std::vector<float> large(kLarge, 1.0F);
      std::vector<float> urgent(10, 2.0F);
      std::vector<float> later(10, 3.0F);
      rank.hold = true;
      const OperationPtr bulk = rank.submit("large", large, 0);
      while (rank.engine->describe_pending().size() == 1) std::this_thread::yield();
      const OperationPtr first = rank.submit("urgent", urgent, 1);
      const OperationPtr last = rank.submit("later", later, 0, ReduceOp::kMax);  // not fused
      while (!rank.engine->describe_pending().empty()) std::this_thread::yield();
      ++submitted;
      while (submitted < size) std::this_thread::yield();
      rank.hold = false;
      for (const OperationPtr& operation : {first, bulk, last}) {
        REQUIRE(rank.engine->wait(operation, {}).ok());
      }
      CHECK(large.front() == static_cast<float>(size));
      CHECK(large.back() == static_cast<float>(size));
      CHECK(urgent[0] == static_cast<float>(2 * size));
      ran[static_cast<std::size_t>(r)] = rank.ran;
    });
    for (const auto& order : ran) CHECK(order == ran[0]);
    CHECK(ran[0].size() == 18);
    CHECK(position(ran[0], "urgent") == 2);  // after what had been let go
    CHECK(position(ran[0], "later") == 17);
  }
}

TEST_CASE("Overtaking: leaving with partitions outstanding finishes what was agreed") {
  constexpr int kRanks = 3;
  for (const int leaver : {0, 2}) {
    const auto hub = create_local_hub(kRanks, {});
    const auto place = std::make_shared<MeetingPlace>(kRanks);
    run_ranks(kRanks, [&](int r) {
      std::vector<float> large(kLarge, 1.0F);
      Rank rank(hub, r, kRanks, place);
      const OperationPtr bulk = rank.submit("large", large, 0);
      while (!rank.engine->describe_pending().empty()) std::this_thread::yield();
      if (r == leaver) rank.engine->leave(now() + std::chrono::seconds(20));
      CHECK(rank.engine->wait(bulk, {}).ok());
      CHECK(large.back() == 3.0F);
    });
  }
}

TEST_CASE("Overtaking: a broken job fails an operation once, when no piece of it runs any more") {
  const auto hub = create_local_hub(2, {});
  const auto place = std::make_shared<MeetingPlace>(2);
  std::atomic<int> agreed{0};
  run_ranks(2, [&](int r) {
    Rank rank(hub, r, 2, place);
    std::vector<float> large(kLarge, 1.0F);
    rank.hold = true;
    const OperationPtr bulk = rank.submit("large", large, 0);
    while (!rank.engine->describe_pending().empty()) std::this_thread::yield();
    ++agreed;
    while (agreed < 2) std::this_thread::yield();
    rank.engine->fail(Status(Code::kInternal, "broken"));
    CHECK(rank.engine->wait(bulk, {}).message() == "broken");
  });
}

}  // namespace ronde
