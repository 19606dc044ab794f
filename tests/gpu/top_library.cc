// top-k's kernels for tests/gpu/top_figure.py, which compares them with torch.topk on torch's own
// tensors: a shared object that ctypes loads. Never installed.
#include "backends/cuda/top_kernels.h"

#define RONDE_EXPORT extern "C" __attribute__((visibility("default")))

/// Bytes of scratch for a vector of `count` elements.
RONDE_EXPORT std::size_t ronde_gpu_top_scratch(std::size_t count) {
  using namespace ronde::cuda;
  return sizeof(Selection) + tiles_of(count, kChunk) * sizeof(Tally);
}

/// Queues the choice of k of `count` values; gives CUDA's code. All but the numbers is in device
/// memory: `left` of count, `indices` and `chosen` of k elements.
RONDE_EXPORT int ronde_gpu_top(const float* values, float* left, std::size_t count, std::size_t k,
                               std::uint32_t* indices, float* chosen, void* scratch, void* stream) {
  auto* const selection = static_cast<ronde::cuda::Selection*>(scratch);
  return ronde::cuda::launch_select_top(
      {.values = values,
       .left = left,
       .count = count,
       .k = k,
       .selection = selection,
       .chunks = reinterpret_cast<ronde::cuda::Tally*>(selection + 1),
       .indices = indices,
       .chosen = chosen},
      stream);
}
