// How the NCCL plane opens communicators, orders launches and aborts, over a fake NCCL.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl/communicator.h"
#include "core/base/clock.h"
#include "tests/backends/nccl/nccl_fixture.h"
#include "tests/conformance/rank.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

/// A device, a stream and a communicator of one rank of a job.
struct NcclRank {
  NcclRank(const LocalJob& job, int rank)
      : spec(job.group(rank)),
        device(std::make_shared<cuda::CudaDevice>(rank)),
        exchange(job.exchange(rank)),
        stream(device->open_stream().value()) {}

  Status open() {
    auto opened = open_fake(spec, *exchange, device);
    if (!opened.ok()) return opened.status();
    group = std::move(opened).value();
    return {};
  }

  /// An allreduce of `data` in place, queued.
  Status launch(std::vector<float>& data) {
    const auto bytes = std::as_writable_bytes(std::span(data));
    const Segment segment{bytes.data(), bytes.data(), bytes.size()};
    Work work;
    work.kind = Collective::kAllreduce;
    work.segments = {&segment, 1};
    return group->run(work, stream, *spec.abort);
  }

  void finish() { cuda_fake::finish(static_cast<cudaStream_t>(stream)); }

  const GroupSpec spec;
  const std::shared_ptr<cuda::CudaDevice> device;
  const std::unique_ptr<Exchange> exchange;
  const DeviceStream stream;
  std::unique_ptr<Communicator> group;
};

void wait_for_abort(const LocalJob& job) {
  const TimePoint limit = now() + std::chrono::seconds(30);
  while (!job.abort().aborted() && now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(job.abort().aborted());
}

/// Requires that no communicator is left over from a test.
struct NoneLeft {
  ~NoneLeft() { CHECK(cuda_fake::live_communicators() == 0); }
};

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
  std::unique_ptr<Executor> executor;
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

TEST_CASE("nccl: a launch does not wait for the other ranks' data") {
  const NoneLeft none;
  const LocalJob job(2);
  run_ranks(2, [&](int r) {
    NcclRank rank(job, r);
    REQUIRE(rank.open().ok());
    std::vector<float> data(1000, static_cast<float>(r + 1));
    if (r == 0) {
      REQUIRE(rank.launch(data).ok());  // returns although rank 1's stream is held up
      REQUIRE(rank.exchange->allgather("launched").ok());
    } else {
      const cuda_fake::Hold hold(static_cast<cudaStream_t>(rank.stream));
      REQUIRE(rank.exchange->allgather("held").ok());
      REQUIRE(rank.launch(data).ok());
    }
    rank.finish();
    CHECK(data == std::vector<float>(1000, 3.0F));
    REQUIRE(rank.exchange->allgather("done").ok());
  });
}

TEST_CASE("nccl: several launches in flight keep their order") {
  const NoneLeft none;
  const LocalJob job(3);
  run_ranks(3, [&](int r) {
    NcclRank rank(job, r);
    REQUIRE(rank.open().ok());
    std::vector<std::vector<float>> data;
    data.reserve(20);
    for (int i = 0; i < 20; ++i) data.emplace_back(10, static_cast<float>(r + i));
    for (auto& values : data) REQUIRE(rank.launch(values).ok());
    rank.finish();
    for (int i = 0; i < 20; ++i) {
      CHECK(data[static_cast<std::size_t>(i)] ==
            std::vector<float>(10, static_cast<float>(3 * i + 3)));
    }
    REQUIRE(rank.exchange->allgather("done").ok());
  });
}

TEST_CASE("nccl: a dead rank in mid-collective aborts the communicators of the others") {
  const NoneLeft none;
  const LocalJob job(2);
  const int aborted = cuda_fake::aborted_communicators();
  run_ranks(2, [&](int r) {
    NcclRank rank(job, r);
    REQUIRE(rank.open().ok());
    REQUIRE(rank.exchange->allgather("open").ok());
    std::vector<float> data(10, 1.0F);
    if (r == 0) {
      REQUIRE(rank.launch(data).ok());  // rank 1 never comes
      job.abort().abort({Code::kRankFailure, "rank 1 died"});
      rank.finish();  // would not end without the abort
      CHECK(rank.launch(data).code() == Code::kRankFailure);
    } else {
      wait_for_abort(job);
    }
  });
  CHECK(cuda_fake::aborted_communicators() == aborted + 2);
}

TEST_CASE("nccl: an abort ends the wait for ranks that never open their communicator") {
  const NoneLeft none;
  const LocalJob job(2);
  run_ranks(2, [&](int r) {
    NcclRank rank(job, r);
    if (r == 1) {  // takes part in the agreement, then dies
      REQUIRE(rank.exchange->allgather("").ok());
      REQUIRE(rank.exchange->allgather("").ok());
      job.abort().abort({Code::kRankFailure, "rank 1 died"});
      return;
    }
    CHECK(rank.open().code() == Code::kRankFailure);
  });
}

TEST_CASE("nccl: an asynchronous error breaks the group within a moment") {
  const NoneLeft none;
  const LocalJob job(2);
  run_ranks(2, [&](int r) {
    NcclRank rank(job, r);
    REQUIRE(rank.open().ok());
    REQUIRE(rank.exchange->allgather("open").ok());
    std::vector<float> data(10, 1.0F);
    if (r == 0) {
      REQUIRE(rank.launch(data).ok());
      cuda_fake::set_nccl_async_error(ncclRemoteError);
    }
    wait_for_abort(job);
    cuda_fake::set_nccl_async_error(ncclSuccess);
    CHECK(job.abort().status().message() == "NCCL, while data moved: as planned");
    rank.finish();
  });
}

TEST_CASE("nccl: what it lacks is not said to be supported") {
  const LocalJob job(1);
  NcclRank rank(job, 0);
  REQUIRE(rank.open().ok());
  const auto has = [&](Collective kind, DType dtype, ReduceOp op) {
    return rank.group->traits().supports.has(kind, dtype, op);
  };
  CHECK(rank.group->traits().memory == DeviceKind::kCuda);
  CHECK(has(Collective::kAllreduce, DType::kBfloat16, ReduceOp::kSum));
  CHECK(has(Collective::kAllgather, DType::kInt16, ReduceOp::kSum));
  CHECK_FALSE(has(Collective::kAllreduce, DType::kInt16, ReduceOp::kSum));
  CHECK_FALSE(has(Collective::kReduce, DType::kInt32, ReduceOp::kBitXor));
}

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
