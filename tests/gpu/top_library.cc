// A shared object with the kernels of top-k. tests/gpu/top_figure.py loads it by ctypes and
// compares it with torch.topk on torch's tensors. Never installed.
#include "backends/cuda/kernels.h"

#define RONDE_EXPORT extern "C" __attribute__((visibility("default")))

/// Bytes of scratch for a vector of `count` elements.
RONDE_EXPORT std::size_t ronde_gpu_top_scratch(std::size_t count) {
  using namespace ronde::cuda;
  return sizeof(Selection) + tiles_of(count, kChunk) * sizeof(Counts) + sizeof(std::uint32_t);
}

/// Queues the selection of k of `count` values; returns CUDA's code. All pointers are to device
/// memory: `left` has count elements, `indices` and `chosen` have k.
RONDE_EXPORT int ronde_gpu_top(const float* values, float* left, std::size_t count, std::size_t k,
                               std::uint32_t* indices, float* chosen, void* scratch, void* stream) {
  using namespace ronde::cuda;
  auto* const selection = static_cast<Selection*>(scratch);
  auto* const chunks = reinterpret_cast<Counts*>(selection + 1);
  const TopWork work{.values = values,
                     .left = left,
                     .count = count,
                     .k = k,
                     .selection = selection,
                     .chunks = chunks,
                     .indices = indices,
                     .chosen = chosen,
                     .found = reinterpret_cast<std::uint32_t*>(chunks + tiles_of(count, kChunk))};
  const SmallTopTable table{.traits = {}, .count = 1, .entries = {{work, 0}}};
  return launch_select(table, ronde::DType::kFloat32, tiles_of(count, kTopTile),
                       static_cast<cudaStream_t>(stream));
}
