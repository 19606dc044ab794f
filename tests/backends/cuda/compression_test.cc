// Compressed allreduces of device memory: what the CPU's give, bit for bit, step after step.
#include <doctest/doctest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ops/compression/residuals.h"
#include "tests/backends/cuda/device_ranks.h"
#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

constexpr int kRanks = 3;
using Results = std::map<int, std::vector<std::vector<float>>>;  // by rank, of each step

/// `Base` with residuals.
template <typename Base>
struct WithResiduals : Base {
  [[nodiscard]] std::vector<int> rank_counts() const override { return {kRanks}; }
  std::unique_ptr<CollectiveExecutor> make_executor(ExecutorOptions options, const GroupSpec& group,
                                                    Exchange& exchange) const override {
    options.residuals = std::make_shared<ResidualStore>();
    return Base::make_executor(std::move(options), group, exchange);
  }
};

BundleTensor tensor_of(std::vector<float>& values) {
  BundleTensor tensor;
  tensor.name = "tensor";
  tensor.in = tensor.out = values.data();
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  return tensor;
}

/// Three steps of a bundle of two tensors; rank 2 has joined and gives zeros.
std::vector<std::vector<float>> steps_of(const Rank& rank, const std::string& compression) {
  std::vector<std::vector<float>> seen;
  for (int step = 0; step < 3; ++step) {
    std::vector<float> first(5003);
    std::vector<float> second(700);
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] =
          static_cast<float>((i * 7919 + static_cast<std::size_t>(rank.rank())) % 1000) - 499.5F;
    }
    for (std::size_t i = 0; i < second.size(); ++i) second[i] = first[2 * i] * 1e-3F;
    Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32, ReduceOp::kAverage);
    bundle.compression = compression;
    bundle.keys = {"first", "second"};
    bundle.tensors = {tensor_of(first), tensor_of(second)};
    if (rank.rank() == 2) {
      for (BundleTensor& tensor : bundle.tensors) tensor.in = tensor.out = nullptr;
    }
    REQUIRE(rank.run(bundle).ok());
    seen.push_back(std::move(first));
    seen.push_back(std::move(second));
  }
  return seen;
}

template <typename Fixture>
Results results_of(const std::string& compression) {
  Results results;
  std::mutex mutex;
  Fixture fixture;
  on_ranks(fixture, [&](const Rank& rank) {
    auto seen = steps_of(rank, compression);
    const std::lock_guard lock(mutex);
    results[rank.rank()] = std::move(seen);
  });
  return results;
}

}  // namespace

TEST_CASE("device compression: every codec gives the CPU's bits") {
  for (const char* compression : {"fp16", "bf16", "int8:ef=off", "onebit", "powersgd"}) {
    CAPTURE(std::string(compression));
    const Results results = results_of<WithResiduals<DeviceFixture>>(compression);
    REQUIRE(results.size() == kRanks);
    CHECK(results == results_of<WithResiduals<LocalFixture>>(compression));
    CHECK(results.at(0) == results.at(1));
  }
}

TEST_CASE("device compression: what a step loses comes in the next, as on the CPU") {
  for (const char* compression : {"int8", "int4:rounding=stochastic", "topk:ratio=0.05"}) {
    CAPTURE(std::string(compression));
    const Results results = results_of<WithResiduals<DeviceFixture>>(compression);
    CHECK(results == results_of<WithResiduals<LocalFixture>>(compression));
    CHECK(results.at(0)[0] != results.at(0)[2]);  // of the same values, a step later
  }
}

}  // namespace ronde::test
