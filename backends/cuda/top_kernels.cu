// The kernels of top-k: top.h and top_list.h say what each thread does.
#include "backends/cuda/top_kernels.h"

namespace ronde::cuda {
namespace {

constexpr std::size_t kMostTallyBlocks = 1024;  ///< Each adds a histogram to that of all.
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kAllLanes = 0xffffffffU;

__global__ void __launch_bounds__(kThreads) begin_kernel(const TopWork work) {
  begin_selection(work, threadIdx.x);
}

template <typename From>
__global__ void __launch_bounds__(kThreads) tally_kernel(const TopWork work, unsigned digit) {
  __shared__ std::uint32_t bins[kMostBins];
  if (digit > 0 && is_known(*work.selection)) return;
  for (unsigned bin = threadIdx.x; bin < kMostBins; bin += kThreads) bins[bin] = 0;
  __syncthreads();
  const std::size_t tiles = tiles_of(work.count, kTallyTile);
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    tally_tile<From>(work, digit, tile, threadIdx.x, bins);
  }
  __syncthreads();
  add_bins(work, digit, threadIdx.x, bins);
}

/// All steps of the scan, by all threads of the block; returns where the sums are.
template <typename Sum>
__device__ const Sum* scan_block(Sum (&sums)[2][kThreads], const Sum& mine) {
  unsigned from = 0;
  sums[from][threadIdx.x] = mine;
  __syncthreads();
  for (unsigned distance = 1; distance < kThreads; distance *= 2, from ^= 1) {
    scan_step(sums[from], sums[from ^ 1], threadIdx.x, distance);
    __syncthreads();
  }
  return sums[from];
}

__global__ void __launch_bounds__(kThreads) pick_kernel(const TopWork work, unsigned digit) {
  __shared__ std::uint32_t sums[2][kThreads];
  const std::uint32_t wanted = work.selection->wanted;
  const std::uint32_t mine = sum_of_bins(*work.selection, digit, threadIdx.x);
  const std::uint32_t* const scanned = scan_block(sums, mine);
  pick_digit(*work.selection, digit, threadIdx.x, scanned, wanted);
}

/// This warp's chunk.
__device__ std::size_t own_chunk() {
  return std::size_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
}

__global__ void __launch_bounds__(kThreads) tally_chunks_kernel(const TopWork work) {
  const std::size_t chunk = own_chunk();
  const unsigned lane = threadIdx.x % kWarp;
  if (chunk >= tiles_of(work.count, kChunk)) return;
  Tally tally = tally_chunk(work, chunk, lane);
  for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) {
    tally = joined(tally, {__shfl_xor_sync(kAllLanes, tally.above, apart),
                           __shfl_xor_sync(kAllLanes, tally.equal, apart)});
  }
  if (lane == 0) work.chunks[chunk] = tally;
}

__global__ void __launch_bounds__(kThreads) place_chunks_kernel(const TopWork work) {
  __shared__ Tally sums[2][kThreads];
  place_chunks(work, threadIdx.x, scan_block(sums, sum_of_chunks(work, threadIdx.x)));
}

__global__ void __launch_bounds__(kThreads) take_chosen_kernel(const TopWork work) {
  const std::size_t chunk = own_chunk();
  const unsigned lane = threadIdx.x % kWarp;
  if (chunk >= tiles_of(work.count, kChunk)) return;
  const std::uint32_t threshold = work.selection->threshold;
  const std::uint32_t lower = (1U << lane) - 1;
  Tally before = work.chunks[chunk];
  float rows[kBatch];
  for (unsigned row = 0; row < kChunk / kWarp; row += kBatch) {
    load_rows(work, chunk, row, lane, rows);
    for (unsigned j = 0; j < kBatch; ++j) {
      const std::uint32_t magnitude = magnitude_of(rows[j]);
      const unsigned above = __ballot_sync(kAllLanes, magnitude > threshold);
      const unsigned equal = __ballot_sync(kAllLanes, magnitude == threshold);
      const Tally in_row{static_cast<std::uint32_t>(__popc(above & lower)),
                         static_cast<std::uint32_t>(__popc(equal & lower))};
      take_chosen(work, chunk_index(chunk, row + j, lane), rows[j], joined(before, in_row));
      before = joined(before, {static_cast<std::uint32_t>(__popc(above)),
                               static_cast<std::uint32_t>(__popc(equal))});
    }
  }
}

}  // namespace

int launch_select_top(const TopWork& work, void* stream) {
  auto* const on = static_cast<cudaStream_t>(stream);
  const std::size_t tiles = tiles_of(work.count, kTallyTile);
  const auto tallies = static_cast<unsigned>(tiles < kMostTallyBlocks ? tiles : kMostTallyBlocks);
  const auto chunks = static_cast<unsigned>(tiles_of(tiles_of(work.count, kChunk), kWarps));
  begin_kernel<<<1, kThreads, 0, on>>>(work);
  if (work.count == 0) return cudaGetLastError();
  const bool known = visit_floating(work.type, [&]<typename From>() {
    tally_kernel<From><<<tallies, kThreads, 0, on>>>(work, 0);
  });
  if (!known) return cudaErrorNotSupported;
  pick_kernel<<<1, kThreads, 0, on>>>(work, 0);
  for (unsigned digit = 1; digit < kDigits; ++digit) {
    tally_kernel<float><<<tallies, kThreads, 0, on>>>(work, digit);
    pick_kernel<<<1, kThreads, 0, on>>>(work, digit);
  }
  tally_chunks_kernel<<<chunks, kThreads, 0, on>>>(work);
  place_chunks_kernel<<<1, kThreads, 0, on>>>(work);
  take_chosen_kernel<<<chunks, kThreads, 0, on>>>(work);
  return cudaGetLastError();
}

}  // namespace ronde::cuda
