// Fusion buffers that NCCL knows: registered while they live, and never longer.
#include "backends/nccl/registered_memory.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/backends/nccl/nccl_fixture.h"
#include "tests/conformance/rank.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

/// A rank whose bundles of two tensors are fused, over a fake NCCL.
struct FusingRank {
  FusingRank(const LocalJob& job, const std::shared_ptr<LocalHub>& hub, int rank)
      : spec(job.group(rank)),
        exchange(job.exchange(rank)),
        device(std::make_shared<cuda::CudaDevice>(rank)),
        backend(create_local_backend(hub, rank)),
        callers(device->open_stream().value()) {
    ExecutorOptions options;
    options.host.whole = backend->open(spec, *exchange).value();
    options.kernels = plain_kernels();
    options.rank = spec.rank;
    options.size = spec.size();
    options.open_device = [this](int) -> Result<DeviceParts> {
      RONDE_ASSIGN_OR_RETURN(auto plane, open_fake(spec, *exchange, device));
      return DeviceParts{.device = device, .whole = std::move(plane)};
    };
    executor = create_executor(std::move(options)).value();
  }

  /// Queues a sum of two tensors of `count` ones.
  Status fuse(std::vector<std::vector<float>>& data, std::size_t count,
              DType dtype = DType::kFloat32) {
    data.assign(2, std::vector<float>(count, 1.0F));
    Bundle bundle = bundle_of(Collective::kAllreduce, dtype);
    bundle.device = {DeviceKind::kCuda, spec.rank};
    ready = device->record(callers).value();
    for (auto& values : data) {
      BundleTensor tensor;
      tensor.name = "tensor";
      tensor.in = tensor.out = values.data();
      tensor.shape = {static_cast<std::int64_t>(count * sizeof(float) / size_of(dtype))};
      tensor.ready = ready.get();
      tensor.complete = &complete;
      bundle.tensors.push_back(tensor);
    }
    return executor->execute(bundle, *spec.abort);
  }
  void finish() const {
    while (complete && !complete->reached().value()) std::this_thread::yield();
  }

  const GroupSpec spec;
  const std::unique_ptr<Exchange> exchange;
  const std::shared_ptr<cuda::CudaDevice> device;
  const std::unique_ptr<Backend> backend;
  const DeviceStream callers;
  DeviceEventPtr ready;
  DeviceEventPtr complete;
  std::unique_ptr<CollectiveExecutor> executor;
};

/// Runs both ranks of a job, after which every registration must have ended in time.
void run_pair(const std::function<void(FusingRank&)>& body) {
  cuda_fake::set_device_count(2);
  const int wrong = cuda_fake::nccl_wrong_registrations();
  const LocalJob job(2);
  const auto hub = create_local_hub(2);
  run_ranks(2, [&](int r) {
    FusingRank rank(job, hub, r);
    body(rank);
  });
  CHECK(cuda_fake::nccl_wrong_registrations() == wrong);
  CHECK(cuda_fake::live_communicators() == 0);
}

}  // namespace

TEST_CASE("registered memory: a fusion buffer is registered once, and anew where it grows") {
  const int before = cuda_fake::nccl_registrations();
  run_pair([&](FusingRank& rank) {
    std::vector<std::vector<float>> small;
    std::vector<std::vector<float>> again;
    std::vector<std::vector<float>> large;
    REQUIRE(rank.fuse(small, 100).ok());
    REQUIRE(rank.fuse(again, 90).ok());
    REQUIRE(rank.fuse(large, 5000).ok());  // the small one may still be under way
    rank.finish();
    CHECK(small[1] == std::vector<float>(100, 2.0F));
    CHECK(again[0] == std::vector<float>(90, 2.0F));
    CHECK(large[1] == std::vector<float>(5000, 2.0F));
    REQUIRE(rank.exchange->allgather("done").ok());
  });
  CHECK(cuda_fake::nccl_registrations() == before + 4);
}

TEST_CASE("registered memory: where NCCL refuses to register it is used all the same") {
  const int before = cuda_fake::nccl_registrations();
  cuda_fake::set_nccl_register_code(ncclInvalidUsage);
  run_pair([](FusingRank& rank) {
    std::vector<std::vector<float>> data;
    REQUIRE(rank.fuse(data, 100).ok());
    rank.finish();
    CHECK(data[0] == std::vector<float>(100, 2.0F));
    REQUIRE(rank.exchange->allgather("done").ok());
  });
  cuda_fake::set_nccl_register_code(ncclSuccess);
  CHECK(cuda_fake::nccl_registrations() == before);
}

TEST_CASE("registered memory: an abort ends the registrations, and nobody ends them again") {
  run_pair([](FusingRank& rank) {
    std::vector<std::vector<float>> data;
    REQUIRE(rank.fuse(data, 100).ok());
    rank.finish();
    REQUIRE(rank.exchange->allgather("done").ok());
    rank.spec.abort->abort({Code::kRankFailure, "rank 7 died"});
    while (cuda_fake::live_communicators() != 0) std::this_thread::yield();
  });
}

TEST_CASE("registered memory: an NCCL without it is no error") {
  nccl::Api api = cuda_fake::nccl_fake();
  api.comm_register = nullptr;
  CHECK_FALSE(api.registers());
  const LocalJob job(1);
  GroupSpec spec = job.group(0);
  const auto exchange = job.exchange(0);
  const auto device = std::make_shared<cuda::CudaDevice>(0);
  const DeviceStream stream = device->open_stream().value();
  spec.device = device;
  const auto backend = create_nccl_backend([api]() -> Result<nccl::Api> { return api; });
  const auto group = backend->open(spec, *exchange).value();
  CHECK(group->allocate(64, stream) == nullptr);
}

}  // namespace ronde::test
