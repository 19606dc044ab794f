// Compressed allreduces of device memory over a fake NCCL: what tensors in host memory give, bit
// for bit, step after step: results, residuals and bytes.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/backends/cuda/compressed_steps.h"
#include "tests/backends/nccl/nccl_fixture.h"

namespace ronde::test {
namespace {

using cuda::CudaDevice;

void check_nccl(const CompressedSteps& steps) {
  check_same_bits<NcclFixture, LocalFixture>(steps, "nccl");
}

/// One tensor that is ready once `stream` has come so far.
struct AwaitedTensor {
  AwaitedTensor(CudaDevice& device, DeviceStream stream, float value)
      : values(5000, value), ready(device.record(stream).value()) {}

  Bundle bundle() {
    Bundle made = bundle_of(Collective::kAllreduce, DType::kFloat32);
    made.compression = "int8";
    made.keys = {"tensor"};
    made.tensors = {in_place(values, ready, &complete)};
    return made;
  }

  std::vector<float> values;
  DeviceEventPtr ready;
  DeviceEventPtr complete;
};

/// Unlike tensors, as many as a model has.
std::vector<std::size_t> many_counts(std::size_t tensors) {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < tensors; ++i) counts.push_back(i * 37 % 900);
  return counts;
}

}  // namespace

TEST_CASE("nccl compression: every codec with kernels gives the CPU's bits, residuals and bytes") {
  for (const char* compression :
       {"fp16", "fp16:ef=on", "bf16", "bf16:ef=on", "int8", "int8:ef=off", "int4",
        "int8:block=64,rounding=stochastic,seed=5", "int4:block=4096,rounding=stochastic", "onebit",
        "onebit:ef=off,block=256", "onebit:block=4096"}) {
    check_nccl({.compression = compression});
  }
}

TEST_CASE("nccl compression: every floating type is read and written as it is, with its factors") {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
    for (const char* compression : {"fp16:ef=on", "int8", "int4:rounding=stochastic"}) {
      check_nccl({.compression = compression, .dtype = dtype, .prescale = 0.37});
    }
  }
  check_nccl({.compression = "int8", .op = ReduceOp::kSum, .prescale = -1.7});
}

TEST_CASE("nccl compression: tensors of several cuts and slices") {
  check_nccl({.compression = "int8", .counts = {600'001, 100}, .steps = 2, .ranks = {3}});
  check_nccl({.compression = "fp16:ef=on",
              .counts = {(std::size_t{1} << 24) + 70'000, 999},
              .steps = 1,
              .ranks = {2}});
}

TEST_CASE("nccl compression: a step with NaN leaves the residuals of its tensor as they were") {
  for (const char* compression : {"fp16:ef=on", "int8", "int4"}) {
    check_nccl({.compression = compression, .steps = 4, .not_finite_in = 1});
  }
  // Too large for the type of the result, though not for the sum.
  check_nccl({.compression = "int8", .dtype = DType::kFloat16, .prescale = 1100.0});
}

TEST_CASE("nccl compression: a rank that has joined gives zeros and keeps nothing") {
  for (const char* compression : {"fp16:ef=on", "int8"}) {
    check_nccl({.compression = compression, .joined = 1});
  }
}

TEST_CASE("nccl compression: unnamed tensors have no residuals") {
  check_nccl({.compression = "int8", .named = false});
}

TEST_CASE("nccl compression: hundreds of tensors take few launches") {
  constexpr int kTensors = 700;
  const CompressedSteps steps{
      .compression = "int8", .counts = many_counts(kTensors), .steps = 1, .ranks = {2}};
  check_nccl(steps);
  const int before = cuda_fake::launches();
  (void)seen_of<NcclFixture>(steps);
  // Of each rank: zeros for each new residual and for the flags; and for two parts, sums, results
  // and residuals at most 450 or 800 runs in each.
  CHECK(cuda_fake::launches() - before <= 2 * (kTensors + 1 + 2 + 2 + 2 + 1));
}

TEST_CASE("nccl compression: tensors that take turns in host and device memory keep residuals") {
  check_nccl({.compression = "int8", .steps = 6, .on_host = {1, 3, 4}});
}

TEST_CASE("nccl compression: what waits goes on with another codec, wherever that works") {
  check_nccl({.compression = "int8",
              .steps = 8,
              .changes = {{1, "int4"},
                          {2, "onebit"},
                          {3, "fp16:ef=on"},
                          {4, "int8:residual=bf16"},
                          {6, "int8"},
                          {7, "fp16"}}});
}

TEST_CASE("nccl compression: top-k's lists pass through the host, between steps over NCCL") {
  const CompressedSteps steps{
      .compression = "topk:ratio=0.05", .steps = 6, .changes = {{2, "int8"}, {3, "topk"}}};
  check_same_bits<NcclFixture, LocalFixture>(steps, "lists over local");
  CompressedSteps back = steps;
  back.changes[5] = "int4";
  check_nccl(back);
}

TEST_CASE("nccl compression: residuals that were saved and loaded go on as they were") {
  const auto reload = [](ResidualStore& store) {
    auto saved = store.save().value();
    REQUIRE(store.load(std::move(saved)).ok());
  };
  check_nccl({.compression = "int8", .steps = 4, .between = reload});
  const CompressedSteps plain{.compression = "int4", .steps = 4};
  CompressedSteps reloaded = plain;
  reloaded.between = reload;
  const SeenByRank expected = seen_of<NcclFixture>(plain);
  for (const auto& [at, seen] : seen_of<NcclFixture>(reloaded)) {
    CHECK(seen.results == expected.at(at).results);
    CHECK(seen.residuals == expected.at(at).residuals);
  }
}

TEST_CASE("nccl compression: tensors beyond the limit of residuals go without") {
  check_nccl({.compression = "int8", .residual_limit = 25'000});
}

TEST_CASE("nccl compression: what waits is measured where that is asked for") {
  const CompressedSteps steps{.compression = "int8", .loss_steps = 2};
  check_nccl(steps);
  CHECK(seen_of<NcclFixture>(steps).at({2, 0}).losses.size() == 8);  // one is empty
}

TEST_CASE("nccl compression: the host waits for nothing, and the device for the tensor") {
  WithResiduals<NcclFixture> fixture({.compression = "int8", .ranks = {2}});
  on_ranks(fixture, [&](const Rank& rank) {
    CudaDevice device(rank.rank());
    const DeviceStream stream = device.open_stream().value();
    std::vector<std::unique_ptr<AwaitedTensor>> steps;
    {
      const cuda_fake::Hold hold(static_cast<cudaStream_t>(stream));
      for (int step = 0; step < 3; ++step) {
        steps.push_back(std::make_unique<AwaitedTensor>(device, stream, 1.0F));
        REQUIRE(rank.run(steps.back()->bundle()).ok());
        CHECK_FALSE(steps.back()->complete->reached().value());
        CHECK(steps.back()->values == std::vector<float>(5000, 1.0F));
      }
    }
    for (const auto& step : steps) {
      while (!step->complete->reached().value()) std::this_thread::yield();
      CHECK(step->values == std::vector<float>(5000, 2.0F));
    }
  });
}

TEST_CASE("nccl compression: without room on the device pinned memory does") {
  cuda_fake::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  check_nccl({.compression = "int8"});
}

}  // namespace ronde::test
