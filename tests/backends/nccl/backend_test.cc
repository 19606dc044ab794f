// How the NCCL plane opens communicators, orders launches and aborts, over a fake NCCL.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

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

}  // namespace ronde::test
