// One rank's chunk of a reduction, read from all ranks' inputs in place. Inputs in arenas are read
// directly, others by blocks through the kernel.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backends/shm/collectives/cursor.h"
#include "backends/shm/collectives/direct.h"
#include "backends/shm/collectives/stream.h"
#include "core/ports/backend.h"
#include "core/ports/reduce_kernels.h"

namespace ronde::shm {

/// The bytes that one rank reduces.
struct Share {
  Cursor own;  ///< At its first byte; where that lies in a segment, it lies in all ranks'.
  std::size_t bytes = 0;
  bool streaming = false;  ///< Outputs are written past the caches.
};

/// Reduces a share in ascending order of ranks, block after block.
class OwnChunk {
 public:
  OwnChunk(const Context& with, const Reduction& what, const Places& places, const Share& share);

  /// Calls Status after(at, bytes) for each block of the chunk once its outputs hold the results;
  /// `at` is a cursor at the block. Errors: after's; the abort's status; kRankFailure.
  template <typename After>
  Status run(After after) {
    for (std::size_t done = 0; done < bytes_; done += block_) {
      const std::size_t bytes = std::min(block_, bytes_ - done);
      RONDE_RETURN_IF_ERROR(stage(bytes));
      if (with_.stop.aborted()) return with_.stop.status();
      const Cursor block = own_;
      std::size_t offset = 0;
      const std::size_t together = with_.watch == nullptr ? bytes : kWatchedBytes;
      for (std::size_t at = 0; at < bytes; at += together) {
        own_.take(std::min(together, bytes - at), [&](const Segment& piece) {
          reduce_piece(piece, offset);
          offset += piece.bytes;
        });
      }
      RONDE_RETURN_IF_ERROR(after(block, bytes));
    }
    return {};
  }

 private:
  /// The watch looks at blocks of this size, which are still in the L1 cache.
  static constexpr std::size_t kWatchedBytes = std::size_t{8} << 10;

  [[nodiscard]] std::byte* staged(std::size_t rank) const;
  [[nodiscard]] std::size_t stride() const { return (block_ + kAlign) / kAlign * kAlign; }
  /// Lets staged blocks begin where the next output does in its cache line. Then no copy, load or
  /// store crosses lines.
  void align();
  [[nodiscard]] const std::byte* input(std::size_t rank, const Segment& piece,
                                       std::size_t offset) const;
  /// Copies the next block of the inputs that cannot be read in place.
  Status stage(std::size_t bytes);
  Status stage_from(std::size_t rank, std::size_t bytes);
  void reduce_piece(const Segment& piece, std::size_t offset);
  /// Shows the watch the inputs of an odd result, whose owners may overwrite them soon.
  void watch_piece(const Segment& piece);
  /// Shows it one of scratch.inputs.
  void watch_input(std::size_t rank, const Segment& piece);

  const Context& with_;
  const Reduction& what_;
  const Places& places_;
  const std::size_t ranks_;
  const std::size_t me_;
  const bool streaming_;
  bool pulls_ = false;     ///< Some peer's inputs have to be staged.
  std::size_t shift_ = 0;  ///< Of the staged blocks.
  Cursor own_;
  const std::size_t bytes_;
  std::size_t block_ = 0;
};

}  // namespace ronde::shm
