// Allreduces of compressed values, of one kind for each family of formats.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

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
struct CompressedAllreduce {
  const ReduceKernels& kernels;
  const AbortToken& abort;
  CompressedWork& compression;  ///< Is told what is left over; commit() is the caller's.
  std::span<const CompressedPiece> pieces;
  DType in_dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  double factor = 1.0;
  /// Room for kept_floats() of all elements where something is kept, else null; must stay until
  /// commit().
  float* left = nullptr;
};

/// The pieces of compressed work: each of its segments is one tensor.
std::vector<CompressedPiece> pieces_of(const Work& work);

/// Elements of all pieces together.
std::size_t count_elements(std::span<const CompressedPiece> pieces) noexcept;

/// Brings factor * in of some elements of a piece to `values`. `wide`: room for as many doubles.
void load_piece(const CompressedAllreduce& work, const CompressedPiece& piece, std::size_t begin,
                std::span<float> values, std::byte* wide);

/// The compressed allreduce of the work's scheme: sparse_allreduce(),
/// low_rank_allreduce() or quantised_allreduce(). All ranks end with the same bits.
Status compressed_allreduce(Transport& transport, const CompressedAllreduce& work,
                            Scratch& scratch);

}  // namespace ronde
