// Which device the calling thread's CUDA calls are for.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/error.h"

namespace ronde::cuda {

/// Makes a device current for a scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) : index_(index) {
    code_ = cudaGetDevice(&before_);
    if (code_ == cudaSuccess && before_ != index_) code_ = cudaSetDevice(index_);
  }
  ~CurrentDevice() {
    if (code_ == cudaSuccess && before_ != index_) (void)cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  [[nodiscard]] Status status() const { return status_of(code_, "cudaSetDevice", index_); }

 private:
  const int index_;
  int before_ = 0;
  cudaError_t code_;
};

}  // namespace ronde::cuda
