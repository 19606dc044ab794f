// A shared object with the kernels of top-k. tests/gpu/top_figure.py loads it by ctypes and
// compares it with torch.topk on torch's tensors. Never installed.
#include "backends/cuda/kernels.h"

#define RONDE_EXPORT extern "C" __attribute__((visibility("default")))

/// Bytes of scratch for a vector of `count` elements.
RONDE_EXPORT std::size_t ronde_gpu_top_scratch(std::size_t count) {
  return ronde::cuda::select_scratch(count) + sizeof(std::uint32_t);
}

/// Queues the selection of k of `count` values; returns CUDA's code. All pointers are to device
/// memory: `left` has count elements, `indices` and `chosen` have k.
RONDE_EXPORT int ronde_gpu_top(const float* values, float* left, std::size_t count, std::size_t k,
                               std::uint32_t* indices, float* chosen, std::byte* scratch,
                               void* stream) {
  std::byte* const end = scratch + ronde::cuda::select_scratch(count);
  const ronde::SelectRun run{.values = values,
                             .left = left,
                             .indices = indices,
                             .chosen = chosen,
                             .found = reinterpret_cast<std::uint32_t*>(end),
                             .scratch = scratch,
                             .count = count,
                             .most = k};
  return ronde::cuda::launch_select({.runs = {&run, 1}}, static_cast<cudaStream_t>(stream));
}
