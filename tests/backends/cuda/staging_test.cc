// Work on device memory: the order of streams, what waits for what, and what happens without room.
#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "core/base/clock.h"
#include "ops/device/device_parts.h"
#include "ops/execution/executor.h"
#include "tests/backends/cuda/device_ranks.h"
#include "tests/conformance/rank.h"
#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/device_spans.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

using cuda::CudaDevice;

cudaStream_t native(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }

/// One rank on a device: no data plane is needed, all else is as ever.
struct LoneRank {
  std::shared_ptr<CudaDevice> device = std::make_shared<CudaDevice>(0);
  DeviceStream callers = device->open_stream().value();
  AbortToken abort;
  EventSwitch events;
  std::unique_ptr<Executor> executor = make();
  DeviceEventPtr ready;
  DeviceEventPtr complete;

  std::unique_ptr<Executor> make() {
    ExecutorOptions options;
    options.kernels = plain_kernels();
    options.events = &events;
    options.open_device = [this](int) -> Result<DeviceParts> {
      return DeviceParts{device, nullptr};
    };
    return create_executor(std::move(options)).value();
  }

  /// An allreduce of `data` in place, times `prescale`.
  Bundle bundle(std::vector<std::vector<float>>& data, double prescale) {
    Bundle made = bundle_of(Collective::kAllreduce, DType::kFloat32);
    made.device = {DeviceKind::kCuda, 0};
    made.prescale = prescale;
    ready = device->record(callers).value();
    for (auto& values : data) made.tensors.push_back(in_place(values, ready, &complete));
    return made;
  }
};

std::int64_t steady_ns() { return to_ns(now()); }

std::vector<float> counted(std::size_t count, float factor) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  for (float& value : values) value *= factor;
  return values;
}

}  // namespace

TEST_CASE("device work: it comes after the caller's stream, and the caller's stream after it") {
  LoneRank rank;
  std::vector<std::vector<float>> data{std::vector<float>(100), std::vector<float>(3)};
  std::vector<float> seen(100);
  const std::vector<float> made = counted(100, 1.0F);
  // The caller's stream writes the tensor, and reads it afterwards: neither call blocks.
  REQUIRE(rank.device->copy(data[0].data(), made.data(), 400, rank.callers).ok());
  REQUIRE(rank.executor->execute(rank.bundle(data, 2.0), rank.abort).ok());
  REQUIRE(rank.complete);
  REQUIRE(rank.device->wait(rank.callers, *rank.complete).ok());
  REQUIRE(rank.device->copy(seen.data(), data[0].data(), 400, rank.callers).ok());
  cuda_fake::finish(native(rank.callers));
  CHECK(seen == counted(100, 2.0F));
  CHECK(rank.executor->last_path() == "host memory");
}

TEST_CASE("device work: a timeline hears when the device did what, once it has") {
  DeviceSpans spans;
  LoneRank rank;
  rank.events.set(&spans);
  std::vector<std::vector<float>> data{counted(100, 1.0F), counted(3, 1.0F)};
  Bundle bundle = rank.bundle(data, 2.0);
  bundle.id = 17;
  std::int64_t before_ns = steady_ns();
  REQUIRE(rank.executor->execute(bundle, rank.abort).ok());
  while (!rank.complete->reached().value()) {
  }
  const std::int64_t ended_ns = steady_ns();
  CHECK(spans.told.empty());  // nobody has asked since
  rank.executor.reset();
  REQUIRE(spans.told.size() == 3);
  const char* const parts[] = {"PACK", "host memory", "UNPACK"};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(spans.told[i].name == parts[i]);
    CHECK(spans.told[i].bundle == 17);
    CHECK(spans.told[i].times.start_ns >= before_ns);
    CHECK(spans.told[i].times.end_ns >= spans.told[i].times.start_ns);
    before_ns = spans.told[i].times.end_ns;
  }
  CHECK(before_ns <= ended_ns + 5'000);  // CUDA rounds its times, and so does the fake
}

TEST_CASE("device work: what was begun for one recording is not told in the next") {
  DeviceSpans first;
  DeviceSpans next;
  LoneRank rank;
  std::vector<std::vector<float>> data{counted(5, 1.0F)};
  for (DeviceSpans* spans : {&first, &next}) {
    rank.events.set(spans);
    Bundle bundle = rank.bundle(data, 2.0);
    bundle.id = spans == &first ? 1 : 2;
    REQUIRE(rank.executor->execute(bundle, rank.abort).ok());
    while (!rank.complete->reached().value()) {
    }
  }
  rank.executor.reset();
  CHECK(first.told.empty());
  REQUIRE(next.told.size() == 1);
  CHECK(next.told[0].bundle == 2);
}

TEST_CASE("device work: a device that tells no times does its work all the same") {
  DeviceSpans spans;
  LoneRank rank;
  rank.events.set(&spans);
  std::vector<std::vector<float>> data{counted(5, 1.0F)};
  const Bundle bundle = rank.bundle(data, 2.0);
  cuda_fake::fail_next("cudaEventElapsedTime", cudaErrorNotSupported);
  REQUIRE(rank.executor->execute(bundle, rank.abort).ok());
  while (!rank.complete->reached().value()) {
  }
  rank.executor.reset();
  CHECK(spans.told.empty());
  CHECK(data[0] == counted(5, 2.0F));
}

TEST_CASE("device work: an abort ends the wait for a device that does not come") {
  LoneRank rank;
  std::vector<std::vector<float>> data{std::vector<float>(8)};
  {
    const cuda_fake::Hold hold(native(rank.callers));
    const Bundle bundle = rank.bundle(data, 1.0);
    rank.abort.abort({Code::kRankFailure, "rank 1 died"});
    CHECK(rank.executor->execute(bundle, rank.abort).code() == Code::kRankFailure);
  }
  cuda_fake::finish(native(rank.callers));
}

TEST_CASE("device work: tensors larger than a piece are exact") {
  LoneRank rank;
  const std::size_t count = 3 * kStagedPieceBytes / sizeof(float) + 17;
  std::vector<std::vector<float>> data{counted(count, 1.0F)};
  REQUIRE(rank.executor->execute(rank.bundle(data, 3.0), rank.abort).ok());
  while (!rank.complete->reached().value()) {
  }
  CHECK(data[0] == counted(count, 3.0F));
}

TEST_CASE("device work: without room for a fusion buffer it goes on in host memory") {
  LoneRank rank;
  std::vector<std::vector<float>> data{counted(5, 1.0F), counted(6, 1.0F)};
  cuda_fake::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  REQUIRE(rank.executor->execute(rank.bundle(data, 0.5), rank.abort).ok());
  while (!rank.complete->reached().value()) {
  }
  CHECK(data[0] == counted(5, 0.5F));
  CHECK(data[1] == counted(6, 0.5F));
}

TEST_CASE("device work: an error of the device names the call") {
  LoneRank rank;
  std::vector<std::vector<float>> data{counted(5, 1.0F)};
  const Bundle bundle = rank.bundle(data, 1.0);
  cuda_fake::fail_next("cudaStreamWaitEvent", cudaErrorIllegalAddress);
  const Status status = rank.executor->execute(bundle, rank.abort);
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().rfind("cudaStreamWaitEvent on cuda:0: ", 0) == 0);
}

TEST_CASE("device work: ranks that send many and few bytes do an alltoall in one way") {
  struct TwelveRanks : DeviceFixture {
    [[nodiscard]] std::vector<int> rank_counts() const override { return {12}; }
  } fixture;
  constexpr std::int64_t kMany = 100'000;  // more than the table's border between two algorithms
  on_ranks(fixture, [](const Rank& rank) {
    const std::int64_t mine = rank.rank() == 0 ? kMany : 1;
    std::vector<float> in(static_cast<std::size_t>(12 * mine), static_cast<float>(rank.rank()));
    std::vector<float> out(static_cast<std::size_t>(kMany + 11), -1.0F);
    const std::vector<std::int64_t> splits(12, mine);
    Bundle bundle = bundle_of(Collective::kAlltoall, DType::kFloat32);
    BundleTensor tensor;
    tensor.name = "rows";
    tensor.in = in.data();
    tensor.out = out.data();
    tensor.shape = {12 * mine};
    tensor.splits = splits;
    bundle.tensors = {tensor};
    REQUIRE(rank.run(bundle).ok());
    std::vector<float> wanted(static_cast<std::size_t>(kMany), 0.0F);
    for (int from = 1; from < 12; ++from) wanted.push_back(static_cast<float>(from));
    CHECK(out == wanted);
  });
}

TEST_CASE("device work: tensors on several devices are an error that says so") {
  LoneRank rank;
  std::vector<std::vector<float>> data{counted(5, 1.0F)};
  Bundle bundle = rank.bundle(data, 1.0);
  bundle.device.kind = static_cast<DeviceKind>(2);
  const Status status = rank.executor->execute(bundle, rank.abort);
  CHECK(status.code() == Code::kUnsupported);
  CHECK(status.message().find("several devices") != std::string::npos);
}

TEST_CASE("device work: an executor without devices says that it has none") {
  ExecutorOptions options;
  options.kernels = plain_kernels();
  const auto executor = create_executor(std::move(options)).value();
  Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32);
  bundle.device = {DeviceKind::kCuda, 0};
  CHECK(executor->execute(bundle, AbortToken()).code() == Code::kUnsupported);
}

}  // namespace ronde::test
