// Memory that algorithms work in between calls: grows to the largest size asked for and stays.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace ronde {

/// A few independent blocks of heap memory, aligned to a cache line.
/// Threads: one at a time.
class Scratch {
 public:
  static constexpr std::size_t kBlocks = 3;

  /// At least `bytes` of block `index` (below kBlocks); contents are unspecified. Valid until the
  /// next call for the same block. Owns: the scratch.
  std::byte* block(std::size_t index, std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
  };
  std::array<Block, kBlocks> blocks_;
};

}  // namespace ronde
