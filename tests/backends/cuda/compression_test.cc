// Compressed allreduces of device memory whose frames are staged through the host: what the CPU's
// codecs give, bit for bit, step after step.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "tests/backends/cuda/compressed_steps.h"
#include "tests/ops/hierarchical/hierarchical_fixture.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

void check_staged(const CompressedSteps& steps, const std::string& path) {
  check_same_bits<DeviceFixture, LocalFixture>(steps, path);
}

/// Tensors in device memory on two hosts, without a device data plane.
using DeviceHosts = OnDevices<LevelPartsFixture>;

}  // namespace

TEST_CASE("device compression: codecs with kernels give the CPU's bits, and frames are staged") {
  for (const char* compression :
       {"fp16", "fp16:ef=on", "bf16:ef=on", "int8", "int8:ef=off", "int4:rounding=stochastic",
        "onebit", "onebit:block=512,ef=off"}) {
    check_staged({.compression = compression}, "local through host memory");
  }
}

TEST_CASE("device compression: codecs without kernels, and residuals in bf16, take the CPU's way") {
  for (const char* compression :
       {"int8:residual=bf16", "topk:ratio=0.05,residual=bf16", "topk:ratio=0.05,select=sampled",
        "topk:ratio=0.05,momentum=0.9", "topk:ratio=0.05,clip=2", "topk:ratio=0.6",
        "randomk:ratio=0.05", "powersgd"}) {
    check_staged({.compression = compression}, "compressed over local");
  }
}

TEST_CASE("device compression: tensors that take turns in host and device memory keep residuals") {
  check_staged({.compression = "int8", .steps = 5, .on_host = {1, 2}}, "local through host memory");
  check_staged({.compression = "int4", .steps = 5, .on_host = {0, 4}}, "compressed over local");
}

TEST_CASE("device compression: frames of twelve ranks, some of which own nothing") {
  check_staged({.compression = "int8", .counts = {3000}, .ranks = {12}},
               "local through host memory");
}

TEST_CASE(
    "device compression: between hosts of several ranks it is the host's plane that does it") {
  check_same_bits<DeviceHosts, LevelPartsFixture>({.compression = "int8", .ranks = {3, 4}},
                                                  "local, local inside hosts");
}

TEST_CASE("device compression: a rank without any memory has a typed error") {
  const CompressedSteps steps{.compression = "int8", .ranks = {2}};
  WithResiduals<DeviceFixture> fixture(steps);
  on_ranks(fixture, [&](const Rank& rank) {
    if (rank.rank() != 0) return;
    cuda_fake::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
    cuda_fake::fail_next("cudaMallocHost", cudaErrorMemoryAllocation);
    std::vector<float> values(1000);
    Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32);
    bundle.compression = "int8";
    bundle.keys = {"tensor"};
    bundle.tensors = {in_place(values)};
    const Status status = rank.run(bundle);
    CHECK(status.code() == Code::kAborted);
    CHECK(status.message() == "out of memory in allreduce of 4000 bytes on cuda:0");
  });
}

}  // namespace ronde::test
