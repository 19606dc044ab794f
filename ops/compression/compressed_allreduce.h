// Collectives of compressed values: an allreduce for each kind of payload; a reduce_scatter and an
// allgather of rounded ones.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/ports/reduce_kernels.h"
#include "core/ports/transport.h"
#include "ops/compression/compressed_work.h"
#include "ops/transfer.h"

namespace ronde {

/// A run of one tensor's elements.
struct CompressedPiece {
  const std::byte* in = nullptr;  ///< Null: zeros.
  std::byte* out = nullptr;       ///< May be `in`. Null: nothing is written.
  std::size_t count = 0;
  std::size_t tensor = 0;  ///< In CompressedWork::tensors().
  std::size_t begin = 0;   ///< The first element's place in the tensor.
};

/// One allreduce: out = the codec's approximation of the sum over ranks of factor * in + residual.
/// Or a reduce_scatter or allgather, whose pieces have owners.
struct CompressedAllreduce {
  const ReduceKernels& kernels;
  const AbortToken& abort;
  CompressedWork& compression;  ///< Gets what is lost; the caller calls commit().
  std::span<const CompressedPiece> pieces;
  DType in_dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  double factor = 1.0;
  /// Room for kept_floats() of all elements, until commit(); null if nothing is kept.
  float* left = nullptr;
  /// By piece: the rank whose chunk it is. Empty in allreduces.
  std::span<const std::size_t> owners = {};
};

/// The pieces of compressed work: each of its segments is one tensor.
std::vector<CompressedPiece> pieces_of(const Work& work);

/// Elements of all pieces together.
std::size_t count_elements(std::span<const CompressedPiece> pieces) noexcept;

/// Writes factor * in of some elements of a piece to `values`. `wide`: room for as many doubles.
void load_piece(const CompressedAllreduce& work, const CompressedPiece& piece, std::size_t begin,
                std::span<float> values, std::byte* wide);

/// Runs the allreduce of the work's payload: sparse_allreduce(), low_rank_allreduce() or
/// quantised_allreduce(). All ranks end with the same bits.
Status compressed_allreduce(Transport& transport, const CompressedAllreduce& work,
                            Scratch& scratch);

/// Allreduce of encoded values. Each rank owns a chunk: it gets the chunk's frames from all others,
/// adds in fp32, encodes the sum and sends it to all. Values are rounded twice, whatever the number
/// of ranks, and all ranks decode the same bytes.
/// partition() says who owns which elements. A rank sends (n-1)/n of the encoded bytes twice, in
/// two rounds of messages; several cuts are under way at a time. The loss of encoding a sum joins
/// the owner's residual. Source: Markov et al., "CGX", 2021 (scatter-reduce-allgather); Tang et
/// al., "1-bit Adam", 2021.
Status quantised_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

/// Reduce_scatter of encoded values: each rank sends frames of others' pieces to their owners,
/// which add them to their own values in fp32. So values of other ranks are rounded once, and this
/// rank's own not at all. A rank sends the encoded bytes of others' pieces. Pieces of one rank have
/// an `out`. What is lost stays in the sender's residual. With error feedback ranks tell each
/// other, in one more round of a byte for each tensor, which results are finite.
Status quantised_reduce_scatter(Transport& transport, const CompressedAllreduce& work,
                                Scratch& scratch);

/// Allgather of encoded values: each rank encodes its own pieces and sends them to all. All decode
/// the same bytes, the owner too, so that all have the same bits. Pieces of this rank have an `in`.
/// A rank sends (n-1) times its encoded bytes. Nothing is kept of what is lost.
Status quantised_allgather(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

/// Allreduce of the elements that topk and randomk select. sparse/exchange.h says how they travel.
/// With k = ratio * count chosen elements of a piece, a rank sends at most k of them to their
/// owners. An owner passes on at most its share of 2k sums; the other sums join its residual. So at
/// most 6k words of index or value leave or reach a rank, whatever the number of ranks. A tensor
/// whose residual cannot be kept travels dense. An owner that gets such values, or so many that all
/// its sums fit, passes all sums on. randomk: ranks at the same step draw the same elements and
/// send no indices. Without error feedback values are scaled so that the result is right on
/// average. Source: Li and Hoefler, "Near-Optimal Sparse Allreduce", PPoPP 2022 (Ok-Topk).
Status sparse_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

/// PowerSGD: allreduce of matrices as products of two thin matrices.
/// A piece of a tensor of shape (d0, d1, ...) is a matrix M of its whole rows of d1 * ... elements.
/// Three kinds of elements travel as they are, in fp32: matrices whose factors would have more than
/// half their elements, elements outside whole rows, and tensors of one dimension.
/// Two sums over ranks, in the order of ranks: P = M Q, and, with P made orthonormal, Q' = M^T P.
/// The result is P Q'^T on all ranks. The next step begins with Q', which is kept with the
/// residuals. Ranks may begin with different Q, after a join or from different checkpoints. The
/// first sum shows it, and all begin again from the seed. The residual is M - P (M^T P)^T of the
/// rank's own M. Format of the first sum: fp32[9] votes, then of each piece P column by column and
/// the elements that travel as they are. Of the second: Q' column by column. Both are fp32 and go
/// by direct_allreduce(). Source: Vogels et al., "PowerSGD", NeurIPS 2019.
Status low_rank_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

/// Runs `body` over `transport`; adds its bytes and its waiting to `facts`. The rest of the time
/// counts as compression, less the decompression that `body` notes. Returns the body's status.
Status run_metered(Transport& transport, CompressionFacts& facts,
                   const std::function<Status(Transport&)>& body);

}  // namespace ronde
