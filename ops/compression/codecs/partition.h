// Which rank owns which elements of a compressed allreduce, and which of them travel together: the
// same wherever it runs, so that tensors in host and in device memory give the same frames.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ops/compression/compressed_allreduce.h"

namespace ronde {

/// Elements of one piece that one rank owns; they are encoded as one frame.
struct OwnedRun {
  std::size_t piece = 0;
  std::size_t begin = 0;  ///< In the piece.
  std::size_t count = 0;
  std::size_t at = 0;  ///< In the slice.
};

/// Elements that travel together: runs by owner, and what their frames take.
struct Slice {
  std::vector<std::vector<OwnedRun>> runs;  ///< By rank.
  std::vector<std::size_t> bytes;           ///< Encoded, by rank.
  std::size_t begin = 0;                    ///< Of its first element among those of all pieces.
  std::size_t count = 0;

  /// Bytes of all ranks.
  [[nodiscard]] std::size_t all_bytes() const noexcept;
};

/// Cuts each piece every 2^18 elements and divides each cut by the codec's blocks among the ranks,
/// the tensor's `turn` saying who comes first: who owns an element depends on its piece alone.
/// Slices end with the cut that brings them to `slice_elements`, or beyond.
std::vector<Slice> partition(std::span<const CompressedPiece> pieces,
                             const CompressedWork& compression, std::size_t ranks,
                             std::size_t slice_elements);

}  // namespace ronde
