// How a kernel is launched: the sources of kernels (*.cu) choose kernels, grids and arguments, and
// split any number of runs into launches of tables.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>

#include "backends/cuda/block.h"
#include "backends/cuda/table.h"

namespace ronde::cuda {

inline constexpr std::size_t kMaxParameterBytes = 32764;  ///< Of a kernel. Source: CUDA, sm_70 on.

#if defined(__CUDACC__)
template <typename Kernel, typename Table, typename... Args>
__global__ void __launch_bounds__(kThreads)
    run_kernel(const __grid_constant__ Table table, Args... args) {
  Block block;
  Kernel::run(block, table, args...);
}

template <typename Kernel, typename Table, typename... Args>
void enqueue(const Grid& grid, cudaStream_t stream, const Table& table, Args... args) {
  run_kernel<Kernel>
      <<<static_cast<unsigned>(grid.blocks), kThreads, grid.shared_bytes, stream>>>(table, args...);
}
#endif

/// Launches Kernel::run(Block&, table, args...) with kThreads threads in each block. The arguments
/// are copied before the call returns. Errors: CUDA's.
template <typename Kernel, typename Table, typename... Args>
cudaError_t launch(const Grid& grid, cudaStream_t stream, const Table& table, Args... args) {
  static_assert(sizeof(Table) + (sizeof(Args) + ... + 0) <= kMaxParameterBytes);
  enqueue<Kernel>(grid, stream, table, args...);
  return cudaGetLastError();
}

/// Launches one table with the first of `runs` and removes them from `runs`. Runs without elements
/// take no entry. `as_entry(run)` gives the table's run; `launch(table, tiles)` launches.
template <typename Table, typename Run, typename Launch, typename AsEntry>
cudaError_t launch_table(std::span<const Run>& runs, const typename Table::Traits& traits,
                         std::size_t tile, const Launch& launch, const AsEntry& as_entry) {
  Table table;
  table.traits = traits;
  table.count = 0;
  std::size_t tiles = 0;
  for (; !runs.empty() && table.count < Table::kCapacity; runs = runs.subspan(1)) {
    if (runs.front().count == 0) continue;
    auto& entry = table.entries[table.count++];
    entry = {as_entry(runs.front()), tiles};
    tiles += tiles_of(entry.count, tile);
  }
  return tiles == 0 ? cudaSuccess : launch(table, tiles);
}

/// Launches all runs, in small tables where they fit. Stops at the first error.
template <typename Small, typename Large, typename Run, typename Launch,
          typename AsEntry = std::identity>
cudaError_t launch_tables(std::span<const Run> runs, const typename Small::Traits& traits,
                          std::size_t tile, const Launch& launch, const AsEntry& as_entry = {}) {
  cudaError_t code = cudaSuccess;
  while (!runs.empty() && code == cudaSuccess) {
    code = runs.size() <= Small::kCapacity
               ? launch_table<Small>(runs, traits, tile, launch, as_entry)
               : launch_table<Large>(runs, traits, tile, launch, as_entry);
  }
  return code;
}

}  // namespace ronde::cuda
