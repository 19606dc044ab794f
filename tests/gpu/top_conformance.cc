// Allreduces compressed by top-k of tensors on devices. Lists are staged through the host's shared
// memory. Each step has the bits that tensors in host memory give.
#include <string>
#include <vector>

#include "tests/backends/cuda/compressed_steps.h"
#include "tests/gpu/gpu_ranks.h"

namespace ronde::test {
namespace {

void check(CompressedSteps steps, const char* path = "lists over shm") {
  steps.ranks = {ProcessWorld::instance().size()};
  if (steps.ranks[0] == 1) return;  // one rank compresses nothing
  check_same_bits<GpuFixture, ProcessFixture>(steps, path);
}

}  // namespace

TEST_CASE("gpu staged: top-k's results, residuals and bytes are those of host memory") {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
    check({.compression = "topk:ratio=0.05", .dtype = type, .prescale = 0.37});
  }
  check({.compression = "topk", .counts = {2'000'003, 70'000, 1}});
  check({.compression = "topk:ratio=0.05,ef=off"});
  check({.compression = "topk:ratio=0.01,warmup=16", .steps = 12});
  check({.compression = "topk:ratio=0.05", .joined = 1});
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < 400; ++i) counts.push_back(i * 37 % 900);
  check({.compression = "topk:ratio=0.05", .counts = counts, .steps = 2});
}

TEST_CASE("gpu staged: top-k leaves residuals as they were where a result is not finite") {
  check({.compression = "topk:ratio=0.05", .dtype = DType::kFloat16, .prescale = 1100.0});
}

TEST_CASE("gpu staged: top-k that sends all, or with momentum, is staged whole") {
  check({.compression = "topk:ratio=1"}, "compressed over shm");
  check({.compression = "topk:ratio=0.05,momentum=0.9"}, "compressed over shm");
}

}  // namespace ronde::test
