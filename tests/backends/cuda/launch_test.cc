// Launches and blocks of threads as the host compiler has them: what the product's kernels run in
// when tests launch them.
#include "backends/cuda/launch.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/cuda_fake/host_block.h"

namespace ronde::test {
namespace {

using namespace ronde::cuda;

constexpr unsigned kLanes = 16;

struct Cells {
  std::uint32_t* cells;
};

/// Counts each thread of each block once.
struct CountKernel {
  static void run(Block& block, const Cells& table, unsigned by) {
    block.each([&](unsigned thread) { table.cells[block.index() * kThreads + thread] += by; });
  }
};

/// Each thread gets the number of another one, which wrote it in the phase before.
struct ExchangeKernel {
  static void run(Block& block, const Cells& table) {
    std::uint32_t numbers[kThreads];
    PerThread<std::uint32_t> own;
    block.each([&](unsigned thread) { numbers[thread] = own[thread] = thread; });
    const std::uint32_t largest = block.largest(own);
    block.each([&](unsigned thread) {
      table.cells[thread] = numbers[kThreads - 1 - thread] + own[thread] - largest;
    });
  }
};

/// Each group's odd lanes, and the sum of its threads' numbers.
struct GroupKernel {
  static void run(Block& block, const Cells& table) {
    block.each_group<kLanes>([&](const Group<kLanes>& group) {
      const std::uint32_t odd = group.ballot([](unsigned lane) { return lane % 2 == 1; });
      const std::uint32_t sum =
          group.reduce([&](unsigned lane) { return group.index() * kLanes + lane; },
                       [](std::uint32_t a, std::uint32_t b) { return a + b; });
      group.each([&](unsigned lane) {
        table.cells[group.index() * kLanes + lane] = lane == 0 ? count_bits(odd) : sum;
      });
    });
  }
};

struct SharedKernel {
  static void run(Block& block, const Cells& table) {
    table.cells[block.index()] = std::isnan(block.shared_floats()[9]) ? 1 : 0;
  }
};

}  // namespace

TEST_CASE("launch: each thread of each block runs once, with a copy of the arguments") {
  std::vector<std::uint32_t> cells(std::size_t{5} * kThreads);
  {
    const cuda_fake::Hold hold(nullptr);
    Cells table{cells.data()};
    REQUIRE(launch<CountKernel>({.blocks = 5}, nullptr, table, 7U) == cudaSuccess);
    table.cells = nullptr;
  }
  cuda_fake::finish(nullptr);
  CHECK(cells == std::vector<std::uint32_t>(cells.size(), 7));
}

TEST_CASE("launch: a phase sees what all threads did in the phase before") {
  std::vector<std::uint32_t> cells(kThreads, 1);
  REQUIRE(launch<ExchangeKernel>({.blocks = 1}, nullptr, Cells{cells.data()}) == cudaSuccess);
  cuda_fake::finish(nullptr);
  CHECK(cells == std::vector<std::uint32_t>(kThreads, 0));
}

TEST_CASE("launch: groups of threads vote, and join what they have") {
  std::vector<std::uint32_t> cells(kThreads);
  REQUIRE(launch<GroupKernel>({.blocks = 1}, nullptr, Cells{cells.data()}) == cudaSuccess);
  cuda_fake::finish(nullptr);
  CHECK(cells[0] == kLanes / 2);
  CHECK(cells[1] == kLanes * (kLanes - 1) / 2);
  CHECK(cells[kThreads - 1] == kLanes * (2 * kThreads - kLanes - 1) / 2);
}

TEST_CASE("launch: shared memory is there, and has no value to rely on") {
  std::vector<std::uint32_t> cells(2);
  const Grid grid{.blocks = 2, .shared_bytes = 10 * sizeof(float)};
  REQUIRE(launch<SharedKernel>(grid, nullptr, Cells{cells.data()}) == cudaSuccess);
  cuda_fake::finish(nullptr);
  CHECK(cells == std::vector<std::uint32_t>{1, 1});
}

TEST_CASE("launch: a grid that no device can run is an error") {
  const Cells none{nullptr};
  CHECK(launch<CountKernel>({.blocks = 0}, nullptr, none, 1U) == cudaErrorInvalidConfiguration);
  CHECK(launch<CountKernel>({.blocks = std::size_t{1} << 31}, nullptr, none, 1U) ==
        cudaErrorInvalidConfiguration);
  CHECK(launch<CountKernel>({.blocks = 1, .shared_bytes = 49153}, nullptr, none, 1U) ==
        cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace ronde::test
