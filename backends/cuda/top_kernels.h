// The door to the kernels of top.h and top_list.h.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/top_list.h"

namespace ronde::cuda {

/// Launches the choice of the largest of each of a table's vectors on a stream, in blocks of
/// kTopTile elements; `type` is that of their values. The table is copied before the call returns.
/// Errors: CUDA's; cudaErrorNotSupported for types that visit_floating() does not know.
cudaError_t launch_select(const SmallTopTable& table, DType type, std::size_t blocks,
                          cudaStream_t stream);
cudaError_t launch_select(const LargeTopTable& table, DType type, std::size_t blocks,
                          cudaStream_t stream);

}  // namespace ronde::cuda
