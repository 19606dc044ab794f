// Allreduces of device memory in two levels: NCCL's fake inside pretended hosts, threads' memory
// between them.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "ops/device/device_parts.h"
#include "tests/backends/nccl/hosts.h"
#include "tests/conformance/rank.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

/// Two hosts of unequal size, and three from 5 ranks on.
struct LevelsFixture : NcclFixture {
  void run(int ranks, const RankBody& body) override {
    std::vector<int> hosts;
    hosts.reserve(static_cast<std::size_t>(ranks));
    const int per_host = ranks < 5 ? (ranks + 1) / 2 : 3;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / per_host);
    on_hosts = std::make_unique<JobOnHosts>(hosts);
    run_ranks(ranks, [&](int rank) {
      const auto backend = create_local_backend(on_hosts->hub, rank);
      const auto exchange = on_hosts->job.exchange(rank);
      body(rank, *backend, on_hosts->job.group(rank), *exchange);
    });
  }
  Result<DeviceParts> open_parts(const GroupSpec& group, Exchange&,
                                 std::shared_ptr<DeviceOps> device) const override {
    RONDE_ASSIGN_OR_RETURN(auto inside, on_hosts->open_inside(group, device));
    return DeviceParts{.device = std::move(device),
                       .whole = nullptr,
                       .inside = std::move(inside),
                       .layout = host_layout(group)};
  }
  std::unique_ptr<JobOnHosts> on_hosts;
};

/// One rank's two levels with a piece size of the test's choice.
struct LevelRank {
  LevelRank(const JobOnHosts& hosts, int rank, std::size_t piece_bytes)
      : spec(hosts.job.group(rank)),
        exchange(hosts.job.exchange(rank)),
        device(std::make_shared<cuda::CudaDevice>(rank)),
        backend(create_local_backend(hosts.hub, rank)),
        stream(device->open_stream().value()) {
    host = std::make_unique<AlgorithmCommunicator>(
        backend->open(spec, *exchange).value(),
        AlgorithmOptions{.kernels = plain_kernels(), .rank = spec.rank, .size = spec.size()});
    DeviceParts parts{.device = device,
                      .whole = nullptr,
                      .inside = hosts.open_inside(spec, device).value(),
                      .layout = host_layout(spec)};
    group = create_device_hierarchical(std::move(parts), *host, piece_bytes);
  }

  template <typename T>
  Status launch(const std::vector<T>& in, std::vector<T>& out, const Reduction& reduction) {
    const Segment segment{std::as_bytes(std::span(in)).data(),
                          std::as_writable_bytes(std::span(out)).data(), in.size() * sizeof(T)};
    Work work;
    work.kind = Collective::kAllreduce;
    work.reduction = reduction;
    work.segments = {&segment, 1};
    return group->run(work, stream, *spec.abort);
  }
  void finish() { cuda_fake::finish(static_cast<cudaStream_t>(stream)); }

  const GroupSpec spec;
  const std::unique_ptr<Exchange> exchange;
  const std::shared_ptr<cuda::CudaDevice> device;
  const std::unique_ptr<Backend> backend;
  const DeviceStream stream;
  std::unique_ptr<AlgorithmCommunicator> host;
  std::unique_ptr<Communicator> group;
};

constexpr Reduction kSum{DType::kFloat32, ReduceOp::kSum, {}};

/// By rank. What has failed on one rank may still be read by the streams of others: it lives until
/// all have finished.
using TensorsOfAll = std::vector<std::vector<float>>;

struct EightDevices {
  EightDevices() { cuda_fake::set_device_count(8); }
  ~EightDevices() {
    CHECK(cuda_fake::live_communicators() == 0);
    cuda_fake::set_device_count(2);
  }
};

/// Looks until `wanted` holds, for half a minute at most.
template <typename Predicate>
bool comes_true(Predicate wanted) {
  const TimePoint limit = now() + std::chrono::seconds(30);
  while (!wanted() && now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return wanted();
}

}  // namespace

RONDE_CONFORMANCE_CASE_("nccl in levels: allreduce of every type, op and count", LevelsFixture,
                        conformance_allreduce)
RONDE_CONFORMANCE_CASE_("nccl in levels: allreduce of large tensors", LevelsFixture,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("nccl in levels: factors are applied before and after", LevelsFixture,
                        conformance_scaling)
RONDE_CONFORMANCE_CASE_("nccl in levels: a NaN of any rank reaches every rank", LevelsFixture,
                        conformance_not_a_number)
RONDE_CONFORMANCE_CASE_("nccl in levels: bundles of several tensors, some empty", LevelsFixture,
                        conformance_fused)
RONDE_CONFORMANCE_CASE_("nccl in levels: a joined rank counts as zeros", LevelsFixture,
                        conformance_joined)
RONDE_CONFORMANCE_CASE_("nccl in levels: broadcast, which is staged", LevelsFixture,
                        conformance_broadcast)
RONDE_CONFORMANCE_CASE_("nccl in levels: a long mixed sequence without synchronisation",
                        LevelsFixture, conformance_sequence)

TEST_CASE("nccl in levels: pieces, uneven hosts and ragged ends give exact sums") {
  const EightDevices devices;
  const std::vector<std::vector<int>> layouts{
      {0, 0, 1, 1}, {0, 0, 0, 1, 1}, {0, 1, 0, 1, 1}, {0, 0, 1}};
  for (const auto& layout : layouts) {
    const JobOnHosts hosts(layout);
    const auto ranks = static_cast<int>(layout.size());
    run_ranks(ranks, [&](int r) {
      LevelRank rank(hosts, r, 16 << 10);
      for (const std::size_t count : {0U, 1U, 3U, 4096U, 20000U, 65537U}) {
        std::vector<float> in(count);
        std::iota(in.begin(), in.end(), static_cast<float>(r));
        std::vector<float> out(count, -1.0F);
        REQUIRE(rank.launch(in, out, kSum).ok());
        rank.finish();
        const int sum_of_ranks = ranks * (ranks - 1) / 2;
        std::vector<float> wanted(count);
        for (std::size_t i = 0; i < count; ++i) {
          wanted[i] = static_cast<float>(ranks * static_cast<int>(i) + sum_of_ranks);
        }
        CHECK(out == wanted);
        REQUIRE(rank.launch(in, in, kSum).ok());  // and in place
        rank.finish();
        CHECK(in == wanted);
      }
      REQUIRE(rank.exchange->allgather("done").ok());
    });
  }
}

TEST_CASE("nccl in levels: an average of the largest values does not overflow") {
  const EightDevices devices;
  const JobOnHosts hosts({0, 0, 1, 1});
  run_ranks(4, [&](int r) {
    LevelRank rank(hosts, r, 4096);
    std::vector<float> data(3000, 3e38F);
    REQUIRE(rank.launch(data, data, {DType::kFloat32, ReduceOp::kSum, {1.0, 0.25}}).ok());
    rank.finish();
    CHECK(data == std::vector<float>(3000, 3e38F));
    std::vector<std::int32_t> whole(3000, r);  // 6 / 4, towards zero
    REQUIRE(rank.launch(whole, whole, {DType::kInt32, ReduceOp::kSum, {1.0, 0.25}}).ok());
    rank.finish();
    CHECK(whole == std::vector<std::int32_t>(3000, 1));
    REQUIRE(rank.exchange->allgather("done").ok());
  });
}

TEST_CASE("nccl in levels: while one piece is between hosts, the next is reduced inside") {
  const EightDevices devices;
  const JobOnHosts hosts({0, 0, 1, 1});
  const int before = cuda_fake::ended_collectives();
  std::atomic<bool> overlapped = false;
  run_ranks(4, [&](int r) {
    LevelRank rank(hosts, r, 16 << 10);
    // The second host comes when both ranks of the first have reduced two pieces.
    if (r >= 2) {
      overlapped = comes_true([&] { return cuda_fake::ended_collectives() >= before + 4; });
    }
    std::vector<float> data(32 << 10, 1.0F);
    REQUIRE(rank.launch(data, data, kSum).ok());
    rank.finish();
    CHECK(data == std::vector<float>(32 << 10, 4.0F));
    REQUIRE(rank.exchange->allgather("done").ok());
  });
  CHECK(overlapped);
}

TEST_CASE("nccl in levels: a death is everybody's, in whichever phase it comes") {
  const EightDevices devices;
  // The missing ranks: one of the same host, a whole other host, or rank 1 alone.
  for (const std::vector<int>& missing : {std::vector<int>{1}, {2, 3}, {1, 2, 3}}) {
    const JobOnHosts hosts({0, 0, 1, 1});
    std::atomic<int> launched = 0;
    TensorsOfAll tensors(4, std::vector<float>(32 << 10, 1.0F));
    run_ranks(4, [&](int r) {
      LevelRank rank(hosts, r, 16 << 10);
      REQUIRE(rank.exchange->allgather("open").ok());
      std::vector<float>& data = tensors[static_cast<std::size_t>(r)];
      if (std::find(missing.begin(), missing.end(), r) == missing.end()) {
        ++launched;
        CHECK(rank.launch(data, data, kSum).code() == Code::kRankFailure);
        CHECK(rank.launch(data, data, kSum).code() == Code::kRankFailure);
        rank.finish();  // would not end without the abort
      } else if (r == missing.front()) {
        REQUIRE(comes_true([&] { return launched == 4 - static_cast<int>(missing.size()); }));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        hosts.job.abort().abort({Code::kRankFailure, "rank died"});
      } else {
        REQUIRE(comes_true([&] { return hosts.job.abort().aborted(); }));
      }
    });
  }
}

TEST_CASE("nccl in levels: a device that is lost in any phase names the call and ends all ranks") {
  const EightDevices devices;
  // Two copies of each rank, down and up; a rank that fails notifies the others, as the engine
  // does.
  for (int copies = 0; copies < 8; ++copies) {
    const JobOnHosts hosts({0, 0, 1, 1});
    cuda_fake::fail_next("cudaMemcpyAsync", cudaErrorDeviceUninitialized, copies);
    std::atomic<int> failed = 0;
    TensorsOfAll tensors(4, std::vector<float>(4000, 1.0F));
    run_ranks(4, [&](int r) {
      LevelRank rank(hosts, r, 16 << 10);
      REQUIRE(rank.exchange->allgather("open").ok());
      std::vector<float>& data = tensors[static_cast<std::size_t>(r)];
      const Status status = rank.launch(data, data, kSum);
      if (status.code() == Code::kUnavailable) {
        CHECK(status.message().rfind("cudaMemcpyAsync on cuda:", 0) == 0);
        ++failed;
        hosts.job.abort().abort(status);
      }
      REQUIRE(comes_true([&] { return hosts.job.abort().aborted(); }));
      CHECK(rank.launch(data, data, kSum).code() == Code::kUnavailable);
      rank.finish();
    });
    CHECK(failed > 0);  // and whom the abort reached within the call
  }
}

TEST_CASE("nccl in levels: what NCCL has not is left to others, and the path says both levels") {
  const EightDevices devices;
  const JobOnHosts hosts({0, 0, 1, 1});
  run_ranks(4, [&](int r) {
    LevelRank rank(hosts, r, 4096);
    const auto has = [&](Collective kind, DType dtype) {
      return rank.group->traits().supports.has(kind, dtype);
    };
    CHECK(has(Collective::kAllreduce, DType::kFloat16));
    CHECK_FALSE(has(Collective::kAllreduce, DType::kInt16));
    CHECK_FALSE(has(Collective::kBroadcast, DType::kFloat32));
    CHECK(rank.group->traits().name == "nccl inside hosts, local between");
    REQUIRE(rank.exchange->allgather("done").ok());
  });
}

}  // namespace ronde::test
