// The door to the kernels of codecs.h. They are no part of libronde_cuda.so: `tests/run.sh --gpu`
// alone calls them, as a compressed allreduce of tensors in device memory is refused.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

/// Queues one frame on a stream. Errors: CUDA's.
cudaError_t launch_encode(const EncodeWork& work, cudaStream_t stream);
cudaError_t launch_decode(const DecodeWork& work, cudaStream_t stream);

}  // namespace ronde::cuda
