// The kernels of top-k: top.h and top_list.h say what each thread does.
#include "backends/cuda/top_kernels.h"

namespace ronde::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffU;

template <typename Table>
__global__ void __launch_bounds__(kThreads) begin_kernel(const __grid_constant__ Table table) {
  begin_selection(table.strips[blockIdx.x], threadIdx.x);
}

template <typename From, typename Table>
__global__ void __launch_bounds__(kThreads)
    tally_kernel(const __grid_constant__ Table table, unsigned digit) {
  __shared__ std::uint32_t bins[kMostBins];
  const TopBlock block = top_block(table, blockIdx.x);
  if (digit > 0 && is_known(*block.work.selection)) return;
  for (unsigned bin = threadIdx.x; bin < kMostBins; bin += kThreads) bins[bin] = 0;
  __syncthreads();
  tally_block<From>(block.work, digit, block.index, threadIdx.x, bins);
  __syncthreads();
  add_bins(block.work, digit, threadIdx.x, bins);
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

template <typename Table>
__global__ void __launch_bounds__(kThreads)
    pick_kernel(const __grid_constant__ Table table, unsigned digit) {
  __shared__ std::uint32_t sums[2][kThreads];
  Selection& selection = *table.strips[blockIdx.x].selection;
  const std::uint32_t wanted = selection.wanted;
  const std::uint32_t mine = sum_of_bins(selection, digit, threadIdx.x);
  const std::uint32_t* const scanned = scan_block(sums, mine);
  pick_digit(selection, digit, threadIdx.x, scanned, wanted);
}

template <typename Table>
__global__ void __launch_bounds__(kThreads)
    tally_chunks_kernel(const __grid_constant__ Table table) {
  const TopBlock block = top_block(table, blockIdx.x);
  const std::size_t chunk = chunk_of(block.index, threadIdx.x / kWarp);
  const unsigned lane = threadIdx.x % kWarp;
  if (chunk >= tiles_of(block.work.count, kChunk)) return;
  Tally tally = tally_chunk(block.work, chunk, lane);
  for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) {
    tally = joined(tally, {__shfl_xor_sync(kAllLanes, tally.above, apart),
                           __shfl_xor_sync(kAllLanes, tally.equal, apart)});
  }
  if (lane == 0) block.work.chunks[chunk] = tally;
}

template <typename Table>
__global__ void __launch_bounds__(kThreads)
    place_chunks_kernel(const __grid_constant__ Table table) {
  __shared__ Tally sums[2][kThreads];
  const TopWork& work = table.strips[blockIdx.x];
  place_chunks(work, threadIdx.x, scan_block(sums, sum_of_chunks(work, threadIdx.x)));
}

template <typename Table>
__global__ void __launch_bounds__(kThreads)
    take_chosen_kernel(const __grid_constant__ Table table) {
  const TopBlock block = top_block(table, blockIdx.x);
  const TopWork& work = block.work;
  const std::size_t chunk = chunk_of(block.index, threadIdx.x / kWarp);
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

/// Kernels that end one vector's part of a step in one block, and those that share it among many.
template <typename Table>
cudaError_t select_any(const Table& table, DType type, std::size_t all, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(all);
  begin_kernel<<<table.count, kThreads, 0, stream>>>(table);
  const bool known = visit_floating(type, [&]<typename From>() {
    tally_kernel<From><<<blocks, kThreads, 0, stream>>>(table, 0);
  });
  if (!known) return cudaErrorNotSupported;
  pick_kernel<<<table.count, kThreads, 0, stream>>>(table, 0);
  for (unsigned digit = 1; digit < kDigits; ++digit) {
    tally_kernel<float><<<blocks, kThreads, 0, stream>>>(table, digit);
    pick_kernel<<<table.count, kThreads, 0, stream>>>(table, digit);
  }
  tally_chunks_kernel<<<blocks, kThreads, 0, stream>>>(table);
  place_chunks_kernel<<<table.count, kThreads, 0, stream>>>(table);
  take_chosen_kernel<<<blocks, kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

}  // namespace

int launch_select(const SmallTopTable& table, DType type, std::size_t blocks, void* stream) {
  return select_any(table, type, blocks, static_cast<cudaStream_t>(stream));
}

int launch_select(const LargeTopTable& table, DType type, std::size_t blocks, void* stream) {
  return select_any(table, type, blocks, static_cast<cudaStream_t>(stream));
}

}  // namespace ronde::cuda
