// The host's time for a fused collective: `gpu_conformance -tc=figure*`, a process for each rank.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "ops/memory/device_wait.h"
#include "tests/conformance/rank.h"
#include "tests/gpu/nccl_ranks.h"
#include "tests/gpu/resnet50.h"

namespace ronde::test {
namespace {

constexpr int kWarmUps = 20;
constexpr int kRuns = 201;

/// Processor time of all threads of this process, in us.
double cpu_us() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) * 1e-3;
}

/// ResNet-50's gradients in device memory, and one operation that sums them in place.
struct Gradients {
  explicit Gradients(DeviceOps& device) {
    const auto counts = resnet50();
    bundle = bundle_of(Collective::kAllreduce, DType::kFloat32, ReduceOp::kSum);
    bundle.device = {DeviceKind::kCuda, device.index()};
    for (const std::size_t count : counts) {
      memory.push_back(device.allocate(MemoryKind::kDevice, count * 4).value());
      BundleTensor tensor;
      tensor.name = "gradient";
      tensor.in = tensor.out = memory.back().get();
      tensor.shape = {static_cast<std::int64_t>(count)};
      tensor.complete = &complete;
      bundle.tensors.push_back(tensor);
    }
  }
  std::vector<std::shared_ptr<std::byte>> memory;
  std::shared_ptr<DeviceEvent> complete;
  Bundle bundle;
};

}  // namespace

TEST_CASE("figure: host time of a fused collective") {
  NcclGpuFixture fixture;
  on_ranks(fixture, [&](const Rank& rank) {
    Gradients gradients(*NcclGpuFixture::device_of(rank.rank()));
    std::vector<double> times;
    for (int run = -kWarmUps; run < kRuns; ++run) {
      const double begin = cpu_us();
      REQUIRE(rank.run(gradients.bundle).ok());
      if (run >= 0) times.push_back(cpu_us() - begin);
      REQUIRE(wait_on_host(*gradients.complete, rank.abort()).ok());  // its time does not count
    }
    CHECK(rank.executor().last_path() == "nccl");
    std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
    if (rank.rank() != 0) return;
    fmt::print(
        "{{\"figure\": \"host time of a fused collective\", \"tensors\": {}, \"ranks\": {}, "
        "\"cpu_us\": {:.1f}}}\n",
        gradients.bundle.tensors.size(), rank.size(), times[kRuns / 2]);
  });
}

}  // namespace ronde::test
