// top-k's kernels on a real GPU: what the CPU chooses, in its order.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "backends/cuda/top_kernels.h"
#include "ops/compression/select.h"
#include "tests/gpu/gpu_memory.h"

namespace ronde::test {
namespace {

constexpr std::size_t kCount = 1'000'003;

/// Chooses on both sides, and compares what is chosen and what is left.
void check_top(const std::vector<float>& values, const std::vector<float>& residual,
               std::size_t k) {
  CAPTURE(k);
  std::vector<float> left = values;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += residual[i];
  std::vector<std::uint32_t> indices;
  select_top(left, k, indices);
  std::vector<float> chosen;
  chosen.reserve(indices.size());
  for (const std::uint32_t index : indices) chosen.push_back(std::exchange(left[index], 0.0F));

  GpuMemory gpu;
  float* const there = gpu.upload(residual);
  const cuda::TopWork work{
      .values = gpu.upload(values),
      .residual = there,
      .left = there,
      .count = values.size(),
      .k = k,
      .selection = reinterpret_cast<cuda::Selection*>(gpu.room(sizeof(cuda::Selection))),
      .chunks = gpu.upload(std::vector<cuda::Tally>(cuda::tiles_of(values.size(), cuda::kChunk))),
      .indices = gpu.upload(std::vector<std::uint32_t>(k)),
      .chosen = gpu.upload(std::vector<float>(k)),
      .found = gpu.upload(std::vector<std::uint32_t>(1))};
  const cuda::SmallTopTable table{.traits = {}, .count = 1, .strips = {{work, 0}}};
  REQUIRE(cuda::launch_select(table, DType::kFloat32, cuda::tiles_of(values.size(), cuda::kTopTile),
                              static_cast<cudaStream_t>(gpu.stream)) == cudaSuccess);
  REQUIRE(gpu.download(work.found, 1)[0] == indices.size());
  CHECK(gpu.holds(work.indices, indices));
  CHECK(gpu.holds(work.chosen, chosen));
  CHECK(gpu.holds(work.left, left));
}

}  // namespace

TEST_CASE("gpu: top-k chooses what the CPU chooses, in its order, and leaves what it leaves") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(kCount);
  std::vector<float> residual(kCount);
  for (float& value : values) value = normal(random);
  for (float& value : residual) value = normal(random) / 4;
  for (const std::size_t k : {std::size_t{1}, kCount / 100, kCount / 2, kCount}) {
    check_top(values, residual, k);
  }
  values[77] = std::numeric_limits<float>::infinity();
  for (std::size_t i = 100; i < kCount; ++i) values[i] = -residual[i];  // zeros
  check_top(values, residual, kCount / 100);
  for (float& value : values) value = std::copysign(1.5F, value);  // ties
  check_top(values, std::vector<float>(kCount), kCount / 3);
}

}  // namespace ronde::test
