#include "backends/cuda/calls.h"

#include <fmt/format.h>

namespace ronde::cuda {

Status status_of(cudaError_t code, const char* call, int device) {
  if (code == cudaSuccess) return {};
  const std::string place = device < 0 ? std::string() : fmt::format(" on cuda:{}", device);
  return {
      code == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kUnavailable,
      fmt::format("{}{}: {} ({})", call, place, cudaGetErrorString(code), cudaGetErrorName(code))};
}

CurrentDevice::CurrentDevice(int index) : index_(index), code_(cudaGetDevice(&before_)) {
  if (code_ == cudaSuccess && before_ != index_) code_ = cudaSetDevice(index_);
}

CurrentDevice::~CurrentDevice() {
  if (code_ == cudaSuccess && before_ != index_) (void)cudaSetDevice(before_);
}

}  // namespace ronde::cuda
