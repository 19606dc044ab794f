// The door to the kernels of top.h and top_list.h.
#pragma once

#include "backends/cuda/top_list.h"

namespace ronde::cuda {

/// Queues the choice of the largest on a cudaStream_t of the current device; 0, or CUDA's error,
/// which is cudaErrorNotSupported for types that visit_floating() does not know. Nothing is waited
/// for.
int launch_select_top(const TopWork& work, void* stream);

}  // namespace ronde::cuda
