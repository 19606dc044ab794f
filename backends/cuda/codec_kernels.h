// The door to the kernels of codecs.h. They are no part of libronde_cuda.so: `tests/run.sh --gpu`
// alone calls them, as a compressed allreduce of tensors in device memory is refused.
#pragma once

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

/// Queues one frame on a cudaStream_t of the current device; 0, or CUDA's error.
int launch_encode(const EncodeWork& work, void* stream);
int launch_decode(const DecodeWork& work, void* stream);

}  // namespace ronde::cuda
