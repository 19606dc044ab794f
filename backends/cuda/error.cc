#include "backends/cuda/error.h"

#include <fmt/format.h>

namespace ronde::cuda {

Status status_of(cudaError_t code, const char* call, int device) {
  if (code == cudaSuccess) return {};
  const std::string place = device < 0 ? std::string() : fmt::format(" on cuda:{}", device);
  return {
      code == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kUnavailable,
      fmt::format("{}{}: {} ({})", call, place, cudaGetErrorString(code), cudaGetErrorName(code))};
}

}  // namespace ronde::cuda
