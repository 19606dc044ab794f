// The kernels of top-k on a real GPU select what the CPU selects, in the same order.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "backends/cuda/kernels.h"
#include "core/base/small_float.h"
#include "core/ports/device_codecs.h"
#include "ops/compression/sparse/select.h"
#include "tests/gpu/gpu_memory.h"

namespace ronde::test {
namespace {

constexpr std::size_t kCount = 1'000'003;

/// Selects on both sides, and compares the lists and the vectors that remain.
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
  const SelectRun run{.values = gpu.upload(values),
                      .residual = there,
                      .left = there,
                      .indices = gpu.upload(std::vector<std::uint32_t>(k)),
                      .chosen = gpu.upload(std::vector<float>(k)),
                      .found = gpu.upload(std::vector<std::uint32_t>(1)),
                      .scratch = gpu.room(cuda::select_scratch(values.size())),
                      .count = values.size(),
                      .most = k};
  REQUIRE(cuda::launch_select({.runs = {&run, 1}}, static_cast<cudaStream_t>(gpu.stream)) ==
          cudaSuccess);
  REQUIRE(gpu.download(run.found, 1)[0] == indices.size());
  CHECK(gpu.holds(run.indices, indices));
  CHECK(gpu.holds(run.chosen, chosen));
  CHECK(gpu.holds(run.left, left));
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

TEST_CASE("gpu: top-k of hundreds of vectors in one work, and lists that come to their places") {
  constexpr std::size_t kVectors = 400;
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  GpuMemory gpu;
  DeviceCodecs& codecs = *gpu.device->codecs();
  std::vector<SelectRun> runs;
  std::vector<ScatterRun> back;
  std::vector<std::vector<float>> given;
  for (std::size_t i = 0; i < kVectors; ++i) {
    given.emplace_back(i * 131 % 40'000 + 1);
    for (float& value : given.back()) value = normal(random);
    const std::size_t count = given.back().size();
    const std::size_t most = count / 20 + 1;
    const std::vector<double> wide(given.back().begin(), given.back().end());
    runs.push_back({.values = gpu.upload(wide),
                    .left = gpu.upload(std::vector<float>(count)),
                    .indices = gpu.upload(std::vector<std::uint32_t>(most)),
                    .chosen = gpu.upload(std::vector<float>(most)),
                    .found = gpu.upload(std::vector<std::uint32_t>(1)),
                    .scratch = gpu.room(codecs.select_scratch(count)),
                    .factor = 0.3,
                    .count = count,
                    .most = most});
    back.push_back({.indices = runs.back().indices,
                    .values = runs.back().chosen,
                    .out = runs.back().left,
                    .flag = gpu.upload(std::vector<std::uint32_t>(1)),
                    .count = most});
  }
  REQUIRE(codecs.select({.from = DType::kFloat64, .runs = runs}, gpu.stream).ok());
  for (std::size_t i = 0; i < kVectors; ++i) {
    std::vector<float> left = given[i];
    for (float& value : left) value *= 0.3F;
    std::vector<std::uint32_t> indices;
    select_top(left, runs[i].most, indices);
    for (const std::uint32_t index : indices) left[index] = 0.0F;
    CHECK(gpu.download(runs[i].found, 1)[0] == runs[i].most);
    CHECK(gpu.holds(runs[i].indices, indices));
    CHECK(gpu.holds(runs[i].left, left));
  }
  // Adding the lists back gives the vectors as they were.
  REQUIRE(codecs.scatter({.adds = true, .runs = back}, gpu.stream).ok());
  for (std::size_t i = 0; i < kVectors; ++i) {
    for (float& value : given[i]) value *= 0.3F;
    CHECK(gpu.holds(runs[i].left, given[i]));
    CHECK(gpu.download(back[i].flag, 1)[0] == 0);
  }
}

TEST_CASE("gpu: a list in 16 bits is rounded as on the CPU, and says where that is not finite") {
  const std::vector<float> values{1.0F / 3, -2.5F, 7e4F, 1e-7F};
  const std::vector<std::uint32_t> indices{5, 0, 3, 9};
  GpuMemory gpu;
  std::uint32_t* const flags = gpu.upload(std::vector<std::uint32_t>(2));
  std::vector<ScatterRun> runs;
  for (std::size_t i = 0; i < 2; ++i) {  // the first two alone; all
    runs.push_back({.indices = gpu.upload(indices),
                    .values = gpu.upload(values),
                    .out = gpu.upload(std::vector<std::uint16_t>(10)),
                    .flag = flags + i,
                    .count = 2 * i + 2});
  }
  REQUIRE(gpu.device->codecs()->scatter({.to = DType::kFloat16, .runs = runs}, gpu.stream).ok());
  std::vector<std::uint16_t> wanted(10);
  for (std::size_t i = 0; i < 4; ++i) wanted[indices[i]] = float_to_float16(values[i]);
  CHECK(gpu.holds(static_cast<const std::uint16_t*>(runs[1].out), wanted));
  CHECK(gpu.download(flags, 2) == std::vector<std::uint32_t>{0, 1});
}

}  // namespace ronde::test
