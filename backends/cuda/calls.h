// Calls of the CUDA runtime: their errors, and the device that they are for.
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/status.h"

namespace ronde::cuda {

/// Ok, or kUnavailable (kResourceExhausted: out of memory): "cudaMemcpyAsync on cuda:0: an illegal
/// memory access was encountered (cudaErrorIllegalAddress)". `device` below 0: not named.
Status status_of(cudaError_t code, const char* call, int device);

/// Makes a device the calling thread's current one for a scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  [[nodiscard]] Status status() const { return status_of(code_, "cudaSetDevice", index_); }

 private:
  const int index_;
  int before_ = 0;
  cudaError_t code_;
};

}  // namespace ronde::cuda
