// Launches of all kernels. Only the *.cu files behind them need the compiler for the devices. Each
// launch takes one table, Small or Large, which is copied before the call returns. Errors: CUDA's;
// cudaErrorNotSupported for types without a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/batched_copy.h"
#include "backends/cuda/codecs.h"
#include "backends/cuda/scatter.h"
#include "backends/cuda/top_list.h"

namespace ronde::cuda {

/// The arguments of a batched copy's launch.
struct CopyLaunch {
  DType from;
  DType to;
  bool is_plain;      ///< Counts are bytes, and tiles have kTileBytes.
  std::size_t tiles;  ///< Of all entries.
};

/// Launches a batched copy.
template <typename Table>
cudaError_t launch_copies(const CopyLaunch& work, const Table& table, cudaStream_t stream);

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
