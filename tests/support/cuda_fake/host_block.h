// Replaces the parts of backends/cuda/block.h and launch.h that need nvcc: kernels' bodies run on
// the CPU, thread after thread. Each source of kernels is compiled with it.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "backends/cuda/block.h"

#define RONDE_DEVICE
#define RONDE_SHARED

namespace ronde::cuda::host {

inline std::uint32_t count_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(std::popcount(bits));
}

/// One value for each thread of a block, or each lane of a group.
template <typename T>
class PerThread {
 public:
  T& operator[](unsigned thread) { return values_[thread]; }

 private:
  T values_[kThreads];
};

/// Emulates a warp: lane after lane.
template <unsigned kWidth>
class Group {
 public:
  explicit Group(unsigned index) : index_(index) {}
  [[nodiscard]] unsigned index() const { return index_; }
  template <typename Body>
  void each(const Body& body) const {
    for (unsigned lane = 0; lane < kWidth; ++lane) body(lane);
  }
  template <typename Predicate>
  [[nodiscard]] std::uint32_t ballot(const Predicate& predicate) const {
    std::uint32_t bits = 0;
    for (unsigned lane = 0; lane < kWidth; ++lane) bits |= predicate(lane) ? 1U << lane : 0U;
    return bits;
  }
  template <typename Values, typename Join>
  [[nodiscard]] auto reduce(const Values& values, const Join& join) const {
    auto all = values(0U);
    for (unsigned lane = 1; lane < kWidth; ++lane) all = join(all, values(lane));
    return all;
  }

 private:
  const unsigned index_;
};

/// Emulates a block: thread after thread. Shared memory begins with NaNs, as a device's is
/// undefined.
class Block {
 public:
  Block(std::size_t index, std::size_t shared_bytes)
      : index_(index), shared_(new float[shared_bytes / sizeof(float)]) {
    std::memset(shared_.get(), 0xff, shared_bytes);
  }
  [[nodiscard]] std::size_t index() const { return index_; }
  [[nodiscard]] float* shared_floats() const { return shared_.get(); }
  template <typename Body>
  void each(const Body& body) const {
    for (unsigned thread = 0; thread < kThreads; ++thread) body(thread);
  }
  template <unsigned kWidth, typename Body>
  void each_group(const Body& body) const {
    for (unsigned index = 0; index < kThreads / kWidth; ++index) body(Group<kWidth>(index));
  }
  [[nodiscard]] std::uint32_t largest(PerThread<std::uint32_t>& numbers) const {
    return *std::max_element(&numbers[0], &numbers[0] + kThreads);
  }

 private:
  const std::size_t index_;
  const std::unique_ptr<float[]> shared_;
};

}  // namespace ronde::cuda::host

namespace ronde::cuda {

using host::Block;
using host::count_bits;
using host::Group;
using host::PerThread;

/// Queues `kernel` on a stream, or makes cudaGetLastError() say why not.
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

}  // namespace ronde::cuda
