// The door to the kernels: all that the compiler for the device must see is behind it.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/strips.h"

namespace ronde::cuda {

/// What one launch does. The table is copied before the call returns.
struct StripLaunch {
  DType from;
  DType to;
  bool copies;        ///< Plain bytes: counts are bytes, tiles kTileBytes.
  std::size_t tiles;  ///< Of all strips.
};

/// Launches one fused copy on a stream. Errors: CUDA's; cudaErrorNotSupported for types that
/// visit_types() does not know.
cudaError_t launch_strips(const StripLaunch& launch, const SmallTable& table, cudaStream_t stream);
cudaError_t launch_strips(const StripLaunch& launch, const LargeTable& table, cudaStream_t stream);

}  // namespace ronde::cuda
