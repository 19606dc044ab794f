// Allreduce of the elements that topk and randomk choose of values in host memory.
// sparse/exchange.h says how they travel.
#pragma once

#include "ops/compression/compressed_allreduce.h"
#include "ops/compression/sparse/codecs.h"
#include "ops/compression/sparse/exchange.h"

namespace ronde {

/// With k = ratio * count chosen elements of a piece, a rank sends at most k of them to their
/// owners; an owner passes on sums of at most its share of 2k elements, so that at most 6k words of
/// index or value leave or reach a rank, whatever the number of ranks; two rounds of messages, each
/// a length (uint64) and the frames of all pieces one after the other. Sums that are not passed on
/// join the owner's residual. Values of a tensor whose residual cannot be kept travel dense; where
/// an owner hears of one, and where the chosen ones fill up what is passed on, it passes all on.
/// random-k: all ranks draw the same elements where they are at the same step, and indices are not
/// sent; without error feedback the values are scaled so that the result is right on average.
/// Source: Li and Hoefler, "Near-Optimal Sparse Allreduce", PPoPP 2022 (Ok-Topk).
Status sparse_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

/// How much of a tensor this rank sends in this step.
struct SparseShare {
  bool keeps = false;  ///< What is not sent waits, or is to be lost; else all travels.
  double ratio = 1.0;
};
SparseShare share_of(const CompressionSpec& spec, const CompressedTensor& tensor) noexcept;

/// How a piece of it travels that is dealt to the ranks like this.
SparsePiece piece_of(const CompressionSpec& spec, const SparseShare& share, const Interleave& deal,
                     std::size_t rank) noexcept;

}  // namespace ronde
