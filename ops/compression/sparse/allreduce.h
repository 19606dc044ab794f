// Allreduce of the elements that topk and randomk choose of values in host memory.
// sparse/exchange.h says how they travel.
#pragma once

#include "ops/compression/compressed_allreduce.h"
#include "ops/compression/sparse/codecs.h"
#include "ops/compression/sparse/exchange.h"

namespace ronde {

/// With k = ratio * count chosen elements of a piece, a rank sends at most k of them to their
/// owners. An owner passes on at most its share of 2k sums; the other sums join its residual. So at
/// most 6k words of index or value leave or reach a rank, whatever the number of ranks. A tensor
/// whose residual cannot be kept travels dense. An owner that gets such values, or so many that all
/// its sums fit, passes all sums on. randomk: ranks at the same step draw the same elements and
/// send no indices. Without error feedback values are scaled so that the result is right on
/// average. Source: Li and Hoefler, "Near-Optimal Sparse Allreduce", PPoPP 2022 (Ok-Topk).
Status sparse_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

/// How much of a tensor this rank sends in this step.
struct SparseShare {
  bool keeps = false;  ///< Elements that are not sent are kept or dropped; else all are sent.
  double ratio = 1.0;
};
SparseShare share_of(const CompressionSpec& spec, const CompressedTensor& tensor) noexcept;

/// How a piece of the tensor travels, with its owners given by `deal`.
SparsePiece piece_of(const CompressionSpec& spec, const SparseShare& share, const Interleave& deal,
                     std::size_t rank) noexcept;

}  // namespace ronde
