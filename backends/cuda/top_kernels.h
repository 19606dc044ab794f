// The door to the kernels of top.h and top_list.h.
#pragma once

#include "backends/cuda/top_list.h"

namespace ronde::cuda {

/// Launches the choice of the largest of each of a table's vectors on a cudaStream_t, in blocks of
/// kTopTile elements; `type` is that of their values. The table is copied before the call returns.
/// Gives 0 or CUDA's error; cudaErrorNotSupported for types that visit_floating() does not know.
int launch_select(const SmallTopTable& table, DType type, std::size_t blocks, void* stream);
int launch_select(const LargeTopTable& table, DType type, std::size_t blocks, void* stream);

}  // namespace ronde::cuda
