// Launches of all kernels: what the compiler for the devices must see is behind these functions.
// Each takes one table of runs; tables are copied before the call returns. Errors: CUDA's;
// cudaErrorNotSupported for types without a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/codecs.h"
#include "backends/cuda/scatter.h"
#include "backends/cuda/strips.h"
#include "backends/cuda/top_list.h"

namespace ronde::cuda {

/// What one batched copy does.
struct StripLaunch {
  DType from;
  DType to;
  bool copies;        ///< Plain bytes: counts are bytes, tiles kTileBytes.
  std::size_t tiles;  ///< Of all strips.
};

/// Launches one batched copy. Table: SmallTable or LargeTable.
template <typename Table>
cudaError_t launch_strips(const StripLaunch& work, const Table& table, cudaStream_t stream);

/// Launches the encoding of values of `type`, in tiles of encoded_tile().
template <typename Table>
cudaError_t launch_encode(const Table& table, DType type, std::size_t tiles, cudaStream_t stream);

/// Launches the decoding of frames into values of `type`, in tiles of decoded_tile().
template <typename Table>
cudaError_t launch_decode(const Table& table, DType type, std::size_t tiles, cudaStream_t stream);

/// Launches conditional copies, in tiles of kTileElements.
template <typename Table>
cudaError_t launch_commit(const Table& table, std::size_t tiles, cudaStream_t stream);

/// Launches the choice of the largest of each vector of `type`, in blocks of kTopTile elements.
template <typename Table>
cudaError_t launch_select(const Table& table, DType type, std::size_t blocks, cudaStream_t stream);

/// Launches the scattering of lists into vectors of `type`, in tiles of kScatterTile.
template <typename Table>
cudaError_t launch_scatter(const Table& table, DType type, std::size_t tiles, cudaStream_t stream);

}  // namespace ronde::cuda
