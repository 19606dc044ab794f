// Allreduces of compressed values: one for each kind of payload.
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
  const std::byte* in = nullptr;  ///< Null: zeros.
  std::byte* out = nullptr;       ///< May be `in`. Null: nothing is written.
  std::size_t count = 0;
  std::size_t tensor = 0;  ///< In CompressedWork::tensors().
  std::size_t begin = 0;   ///< The first element's place in the tensor.
};

/// One allreduce: out = the codec's approximation of the sum over ranks of factor * in + residual.
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

}  // namespace ronde
