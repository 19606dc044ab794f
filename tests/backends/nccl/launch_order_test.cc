// Process sets that overlap each other, over a fake NCCL: a collective that waits for other ranks
// holds its device, so sets that launch in unlike orders would wait for each other for ever.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "ops/device/device_parts.h"
#include "ops/execution/executor.h"
#include "tests/backends/nccl/nccl_fixture.h"
#include "tests/support/local/factory.h"
#include "tests/support/local/hub.h"
#include "tests/support/local_exchange.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

constexpr int kRanks = 3;

/// Set 0 has all ranks, set 1 + r the ranks r and r + 1 of the ring.
std::vector<int> members_of(SetId set) {
  if (set == kGlobalSet) return {0, 1, 2};
  const int next = set % kRanks;
  return {std::min(set - 1, next), std::max(set - 1, next)};
}

bool is_member(SetId set, int rank) {
  const auto members = members_of(set);
  return std::find(members.begin(), members.end(), rank) != members.end();
}

/// State that the ranks of one test share.
struct RingJob {
  RingJob() {
    cuda_fake::set_device_count(kRanks);
    for (SetId set = 0; set <= kRanks; ++set) {
      const auto size = static_cast<int>(members_of(set).size());
      jobs.push_back(std::make_unique<LocalJob>(size));
      hubs.push_back(create_local_hub(size));
    }
  }
  ~RingJob() { cuda_fake::set_device_count(2); }
  RingJob(const RingJob&) = delete;
  RingJob& operator=(const RingJob&) = delete;

  std::shared_ptr<LocalHub> hub = create_local_hub(kRanks, {});
  std::vector<std::unique_ptr<LocalJob>> jobs;  // by set: what it agrees over,
  std::vector<std::shared_ptr<LocalHub>> hubs;  // and what it stages over
};

/// One rank with an engine, a device of its own, and its sets over NCCL.
struct RingRank {
  /// `before_sets` is called when its engine runs and has no set yet.
  RingRank(
      RingJob& job, int number, const std::function<void()>& before_sets = [] {})
      : rank(number),
        device(std::make_shared<cuda::CudaDevice>(number)),
        channel(create_local_channel(job.hub, number)) {
    EngineOptions options;
    options.channel = channel.get();
    options.abort = abort;
    options.cache_capacity = 64;
    engine = std::make_unique<Engine>(options);
    std::map<SetId, std::unique_ptr<Executor>> executors;
    for (SetId set = 0; set <= kRanks; ++set) {
      if (is_member(set, rank)) executors[set] = executor_of(job, set);
    }
    before_sets();
    for (auto& [set, executor] : executors) {
      engine->add_set(set, members_of(set), std::move(executor));
    }
  }
  ~RingRank() {
    engine->leave(now() + std::chrono::seconds(20));
    engine.reset();
    channel->close();
  }
  RingRank(const RingRank&) = delete;
  RingRank& operator=(const RingRank&) = delete;

  std::unique_ptr<Executor> executor_of(RingJob& job, SetId set) {
    const auto members = members_of(set);
    const auto at =
        static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
    const LocalJob& group = *job.jobs[static_cast<std::size_t>(set)];
    GroupSpec spec = group.group(at);
    spec.abort = abort;
    std::shared_ptr<Exchange> exchange = group.exchange(at);
    ExecutorOptions options;
    const auto& hub = job.hubs[static_cast<std::size_t>(set)];
    backends.push_back(create_local_backend(hub, at));
    options.host.whole = backends.back()->open(spec, *exchange).value();
    options.kernels = plain_kernels();
    options.rank = at;
    options.size = spec.size();
    options.open_device = [this, spec, exchange](int) -> Result<DeviceParts> {
      RONDE_ASSIGN_OR_RETURN(auto plane, open_fake(spec, *exchange, device));
      return DeviceParts{device, std::move(plane), chain};
    };
    auto made = create_executor(std::move(options)).value();
    paths[set] = made.get();
    return made;
  }

  /// Submits an allreduce of `data` in a set, ready when `stream` has come so far.
  OperationPtr submit(SetId set, const std::string& name, std::vector<float>& data,
                      DeviceStream stream) {
    Submission submission;
    submission.request.name = name;
    submission.request.device = {DeviceKind::kCuda, rank};
    submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(data.size())}}};
    submission.inputs = {data.data()};
    submission.outputs = {data.data()};
    submission.ready = device->record(stream).value();
    return engine->submit(set, std::move(submission)).value();
  }

  const int rank;
  const std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  const std::shared_ptr<cuda::CudaDevice> device;
  const std::shared_ptr<LaunchChain> chain = std::make_shared<LaunchChain>();
  std::vector<std::unique_ptr<Backend>> backends;
  std::map<SetId, const Executor*> paths;  // read while nothing is under way
  std::unique_ptr<ControlChannel> channel;
  std::unique_ptr<Engine> engine;
};

void finish(const RingRank& rank, const OperationPtr& operation) {
  REQUIRE(rank.engine->wait(operation, {}).ok());
  while (!operation->completion()->reached().value()) std::this_thread::yield();
}

/// Both pairs of a rank: the one it begins itself is ready at once, the other when the hold ends.
void run_round(RingRank& rank, DeviceStream open, DeviceStream held, int round) {
  const std::string name = std::to_string(round);
  const SetId begun = 1 + rank.rank;
  const SetId joined = 1 + (rank.rank + kRanks - 1) % kRanks;
  std::vector<float> first(8, 1.0F);
  std::vector<float> second(8, 2.0F);
  std::vector<float> all(8, 3.0F);
  OperationPtr late;
  OperationPtr early;
  {
    const cuda_fake::Hold hold(static_cast<cudaStream_t>(held));
    early = rank.submit(begun, name, first, open);
    late = rank.submit(joined, name, second, held);
    REQUIRE(rank.engine->wait(early, {}).ok());
    REQUIRE(rank.engine->wait(late, {}).ok());
  }
  const OperationPtr last = rank.submit(kGlobalSet, name, all, open);
  finish(rank, early);
  finish(rank, late);
  finish(rank, last);
  CHECK(first == std::vector<float>(8, 3.0F));
  CHECK(second == std::vector<float>(8, 3.0F));
  CHECK(all == std::vector<float>(8, 9.0F));
}

}  // namespace

TEST_CASE("launch order: three ranks in three sets of two, each ready in another order, all end") {
  RingJob job;
  run_ranks(
      kRanks,
      [&](int number) {
        RingRank rank(job, number);
        const DeviceStream open = rank.device->open_stream().value();
        const DeviceStream held = rank.device->open_stream().value();
        for (int round = 0; round < 20; ++round) run_round(rank, open, held, round);
      },
      std::chrono::seconds(kUnderTsan ? 120 : 20));
}

TEST_CASE("launch order: two ranks agree before the one that orders has any set") {
  RingJob job;
  std::atomic<int> submitted = 0;
  std::atomic<int> ended = 0;
  run_ranks(kRanks, [&](int number) {
    RingRank rank(job, number, [&] {
      if (number != 0) return;
      while (submitted < 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // they ask meanwhile
    });
    if (number == 0) {  // when it leaves, the order ends
      while (ended < 2) std::this_thread::yield();
      return;
    }
    const DeviceStream stream = rank.device->open_stream().value();
    std::vector<float> data(8, 1.0F);
    const OperationPtr operation = rank.submit(2, "early", data, stream);
    ++submitted;
    finish(rank, operation);
    ++ended;
    CHECK(data == std::vector<float>(8, 2.0F));
  });
}

TEST_CASE("launch order: sets that launch many at once, each rank from another set on, all end") {
  RingJob job;
  run_ranks(
      kRanks,
      [&](int number) {
        RingRank rank(job, number);
        const DeviceStream stream = rank.device->open_stream().value();
        constexpr int kSteps = 50;
        std::vector<std::vector<float>> data(std::size_t{4} * kSteps, std::vector<float>(4, 1.0F));
        std::vector<std::pair<SetId, OperationPtr>> operations;
        for (int step = 0; step < kSteps; ++step) {
          for (int i = 0; i < 4; ++i) {
            const SetId set = (i + number) % 4;
            if (!is_member(set, number)) continue;
            auto& values = data[operations.size()];
            operations.emplace_back(set, rank.submit(set, std::to_string(step), values, stream));
          }
        }
        for (std::size_t i = 0; i < operations.size(); ++i) {
          finish(rank, operations[i].second);
          const float sum = operations[i].first == kGlobalSet ? 3.0F : 2.0F;
          CHECK(data[i] == std::vector<float>(4, sum));
        }
      },
      std::chrono::seconds(kUnderTsan ? 120 : 20));
}

TEST_CASE("launch order: once a rank has left, other sets go on through the host") {
  RingJob job;
  const LocalJob meeting(kRanks);
  run_ranks(kRanks, [&](int number) {
    RingRank rank(job, number);
    const DeviceStream stream = rank.device->open_stream().value();
    std::vector<float> data(4, 1.0F);
    finish(rank, rank.submit(kGlobalSet, "all", data, stream));
    if (number != 2) {
      finish(rank, rank.submit(1, "before", data, stream));
      CHECK(rank.paths.at(1)->last_path() == "nccl");
    }
    REQUIRE(meeting.exchange(number)->allgather("").ok());
    if (number == 2) return;
    std::vector<float> refused(4);
    CHECK(rank.engine->wait(rank.submit(kGlobalSet, "none", refused, stream), {}).code() ==
          Code::kRankFailure);
    finish(rank, rank.submit(1, "after", data, stream));
    CHECK(rank.paths.at(1)->last_path() == "local through host memory");
    CHECK(data == std::vector<float>(4, 12.0F));
  });
}

}  // namespace ronde::test
