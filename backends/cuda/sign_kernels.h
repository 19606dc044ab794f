// The door to the kernels of sign.h.
#pragma once

#include "backends/cuda/sign.h"

namespace ronde::cuda {

/// Queues one frame of onebit on a cudaStream_t of the current device; 0, or CUDA's error.
int launch_encode_signs(const EncodeWork& work, void* stream);
int launch_decode_signs(const DecodeWork& work, void* stream);

}  // namespace ronde::cuda
