// The threads of one block, so that a kernel's body is one source for nvcc and the host compiler.
// A body runs in phases: all threads end a phase before one begins the next. On the device a phase
// is one thread's work after a barrier; tests/support/cuda_fake runs the threads in turn.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/table.h"

namespace ronde::cuda {

inline constexpr unsigned kThreads = 256;  ///< Of a block.
inline constexpr unsigned kWarp = 32;      ///< Threads that the hardware runs together.

/// Blocks of a launch, and the bytes that each gets as Block::shared_floats().
struct Grid {
  std::size_t blocks;
  std::size_t shared_bytes = 0;
};

}  // namespace ronde::cuda

#if defined(__CUDACC__)

#define RONDE_DEVICE __device__
/// Declares a local variable of a kernel that the block's threads share.
#define RONDE_SHARED __shared__

namespace ronde::cuda {

RONDE_DEVICE inline std::uint32_t count_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__popc(bits));
}

/// One value for each thread: a register. A thread may use its own value only.
template <typename T>
class PerThread {
 public:
  RONDE_DEVICE T& operator[](unsigned) { return value_; }

 private:
  T value_;
};

/// kWidth neighbouring threads of one warp, its lanes. All lanes must make the same calls.
template <unsigned kWidth>
class Group {
 public:
  /// The group's number in its block.
  [[nodiscard]] RONDE_DEVICE unsigned index() const { return threadIdx.x / kWidth; }
  /// Calls body(lane) for all lanes.
  template <typename Body>
  RONDE_DEVICE void each(const Body& body) const {
    body(threadIdx.x % kWidth);
  }
  /// Bit number `lane` is predicate(lane).
  template <typename Predicate>
  [[nodiscard]] RONDE_DEVICE std::uint32_t ballot(const Predicate& predicate) const {
    return __ballot_sync(mask(), predicate(threadIdx.x % kWidth)) >> first_lane();
  }
  /// All values(lane) joined, in every lane. `join` must not depend on the order.
  template <typename Values, typename Join>
  [[nodiscard]] RONDE_DEVICE auto reduce(const Values& values, const Join& join) const {
    auto all = values(threadIdx.x % kWidth);
    for (unsigned apart = kWidth / 2; apart > 0; apart /= 2) all = join(all, exchange(all, apart));
    return all;
  }

 private:
  static constexpr std::uint32_t kLanes = 0xffffffffU >> (kWarp - kWidth);

  RONDE_DEVICE static unsigned first_lane() { return threadIdx.x % kWarp / kWidth * kWidth; }
  RONDE_DEVICE static std::uint32_t mask() { return kLanes << first_lane(); }
  template <typename T>
  RONDE_DEVICE static T exchange(const T& value, unsigned apart) {
    static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
    struct Words {
      std::uint32_t words[sizeof(T) / sizeof(std::uint32_t)];
    };
    auto all = std::bit_cast<Words>(value);
    for (std::uint32_t& word : all.words) word = __shfl_xor_sync(mask(), word, apart);
    return std::bit_cast<T>(all);
  }
};

/// The block of the thread that runs. All threads must make the same calls.
class Block {
 public:
  /// The block's number in its launch.
  [[nodiscard]] RONDE_DEVICE std::size_t index() const { return blockIdx.x; }
  /// The memory that Grid::shared_bytes asks for; all threads of the block share it.
  [[nodiscard]] RONDE_DEVICE float* shared_floats() const {
    extern __shared__ float floats[];
    return floats;
  }
  /// A phase: calls body(thread) for all threads.
  template <typename Body>
  RONDE_DEVICE void each(const Body& body) {
    begin_phase();
    body(threadIdx.x);
  }
  /// A phase: calls body(Group<kWidth>) for all groups.
  template <unsigned kWidth, typename Body>
  RONDE_DEVICE void each_group(const Body& body) {
    begin_phase();
    body(Group<kWidth>());
  }
  /// The end of a phase: the largest of all threads' numbers, in every thread. Once in a body.
  [[nodiscard]] RONDE_DEVICE std::uint32_t largest(PerThread<std::uint32_t>& numbers) {
    __shared__ std::uint32_t of_warps[kThreads / kWarp];
    const Group<kWarp> warp;
    std::uint32_t all = warp.reduce([&](unsigned lane) { return numbers[lane]; },
                                    [](std::uint32_t a, std::uint32_t b) { return max(a, b); });
    if (threadIdx.x % kWarp == 0) of_warps[warp.index()] = all;
    __syncthreads();
    ended_ = false;
    for (const std::uint32_t other : of_warps) all = max(all, other);
    return all;
  }

 private:
  RONDE_DEVICE void begin_phase() {
    if (ended_) __syncthreads();
    ended_ = true;
  }

  bool ended_ = false;  // a phase with no barrier after it
};

}  // namespace ronde::cuda

#endif
