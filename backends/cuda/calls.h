// Calls of the CUDA runtime: their errors, and the device that they are for.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "core/base/status.h"

namespace ronde::cuda {

/// Ok, or kUnavailable (kResourceExhausted: out of memory): "cudaMemcpyAsync on cuda:0: an illegal
/// memory access was encountered (cudaErrorIllegalAddress)". `device` below 0: not named.
inline Status status_of(cudaError_t code, const char* call, int device) {
  if (code == cudaSuccess) return {};
  const std::string place = device < 0 ? std::string() : fmt::format(" on cuda:{}", device);
  return {
      code == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kUnavailable,
      fmt::format("{}{}: {} ({})", call, place, cudaGetErrorString(code), cudaGetErrorName(code))};
}

/// Makes a device the calling thread's current one for a scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) : index_(index), code_(cudaGetDevice(&before_)) {
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
