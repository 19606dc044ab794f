// Divides the elements of a compressed collective among ranks and into slices. Host and device use
// the same division, so that both give the same frames.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ops/compression/compressed_allreduce.h"

namespace ronde {

/// Elements of one piece that one rank owns, encoded as one frame.
struct OwnedRun {
  std::size_t piece = 0;
  std::size_t begin = 0;  ///< In the piece.
  std::size_t count = 0;
  std::size_t at = 0;  ///< In the slice.
};

/// Elements that travel together.
struct Slice {
  std::vector<std::vector<OwnedRun>> runs;  ///< By rank.
  std::vector<std::size_t> bytes;           ///< Of the frames, by rank.
  std::size_t begin = 0;                    ///< Its first element's place among all pieces.
  std::size_t count = 0;

  /// Bytes of all ranks.
  [[nodiscard]] std::size_t all_bytes() const noexcept;
};

/// Cuts each piece every 2^18 elements, and divides the codec's blocks of each cut among the ranks,
/// beginning at the tensor's `turn`. The owner of an element depends on its piece alone. A slice
/// ends with the cut that brings it to `slice_elements` or beyond.
std::vector<Slice> partition(std::span<const CompressedPiece> pieces,
                             const CompressedWork& compression, std::size_t ranks,
                             std::size_t slice_elements);

/// As partition(), of pieces that have owners already. Each slice has about as many elements of
/// each owner as of the others, so that all links are in use: `slice_elements` / ranks at most, but
/// a block at least. Runs are whole blocks of their pieces.
std::vector<Slice> partition_by_owner(std::span<const CompressedPiece> pieces,
                                      std::span<const std::size_t> owners, const Codec& codec,
                                      std::size_t ranks, std::size_t slice_elements);

}  // namespace ronde
