// Allreduce of encoded values: every rank owns a part, gets it encoded from all others, adds it up
// in fp32, encodes the sum once more and sends it to all. Two roundings whatever the number of
// ranks, and all ranks decode the same bytes.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/abort.h"
#include "core/ports/reduce_kernels.h"
#include "core/ports/transport.h"
#include "ops/compression/compressed_work.h"
#include "ops/scratch.h"

namespace ronde {

/// A run of one tensor's elements.
struct CompressedPiece {
  const std::byte* in = nullptr;  ///< Null counts as zeros.
  std::byte* out = nullptr;       ///< May be `in`; null is not written.
  std::size_t count = 0;
  std::size_t tensor = 0;  ///< In CompressedWork::tensors().
  std::size_t begin = 0;   ///< Of the first element in the tensor.
};

/// One allreduce: out = sum over ranks of factor * in + residual, as far as the codec delivers it.
struct QuantisedAllreduce {
  const ReduceKernels& kernels;
  const AbortToken& abort;
  CompressedWork& compression;  ///< Is told what is left over; commit() is the caller's.
  std::span<const CompressedPiece> pieces;
  DType in_dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  double factor = 1.0;
  /// Room for all elements where there are residuals, else null; must stay until commit().
  float* left = nullptr;
};

/// Each piece is cut every 2^18 elements, and each cut divided by blocks among the ranks, so that
/// who owns an element depends on its piece alone. Per rank (n-1)/n of the encoded bytes leave
/// twice; two rounds of messages, several cuts being under way at a time.
/// What the owner's own encoding of the sum loses joins the owner's residual.
/// Source: Markov et al., "CGX", 2021 (scatter-reduce-allgather); Tang et al., "1-bit Adam", 2021.
Status quantised_allreduce(Transport& transport, const QuantisedAllreduce& work, Scratch& scratch);

}  // namespace ronde
