// CUDA's return codes as errors that name the call and the device.
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/status.h"

namespace ronde::cuda {

/// Ok, or kUnavailable (kResourceExhausted where memory ran out): "cudaMemcpyAsync on cuda:0: an
/// illegal memory access was encountered (cudaErrorIllegalAddress)". `device` below 0: none.
Status status_of(cudaError_t code, const char* call, int device);

}  // namespace ronde::cuda
