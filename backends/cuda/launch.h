// How a kernel is launched. The sources of kernels (*.cu) choose kernels, grids and arguments. nvcc
// compiles them for the devices, and the host compiler for the tests.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "backends/cuda/block.h"

#if !defined(__CUDACC__)
#include <functional>
#include <memory>
#endif

namespace ronde::cuda {

/// Blocks of a launch, and the bytes that each gets as Block::shared_floats().
struct Grid {
  std::size_t blocks;
  std::size_t shared_bytes = 0;
};

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
#else
/// Queues `kernel` on a stream, or makes cudaGetLastError() say why not. Tests define it.
void enqueue_on_host(const Grid& grid, cudaStream_t stream, std::function<void()> kernel);

template <typename Kernel, typename Table, typename... Args>
void enqueue(const Grid& grid, cudaStream_t stream, const Table& table, Args... args) {
  const auto copy = std::make_shared<const Table>(table);
  enqueue_on_host(grid, stream, [grid, copy, args...] {
    for (std::size_t index = 0; index < grid.blocks; ++index) {
      Block block(index, grid.shared_bytes);
      Kernel::run(block, *copy, args...);
    }
  });
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

}  // namespace ronde::cuda
