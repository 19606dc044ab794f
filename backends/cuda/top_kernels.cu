// The kernels of top-k: top.h says what each thread does.
#include "backends/cuda/kernels.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/top.h"

namespace ronde::cuda {
namespace {

struct BeginKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    block.each([&](unsigned thread) { begin_selection(table.entries[block.index()], thread); });
  }
};

template <typename From>
struct CountKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table, unsigned digit) {
    RONDE_SHARED std::uint32_t bins[kMostBins];
    const TopBlock share = top_block(table, block.index());
    if (digit > 0 && is_known(*share.work.selection)) return;
    block.each([&](unsigned thread) {
      for (unsigned bin = thread; bin < kMostBins; bin += kThreads) bins[bin] = 0;
    });
    block.each(
        [&](unsigned thread) { count_block<From>(share.work, digit, share.index, thread, bins); });
    block.each([&](unsigned thread) { add_bins(share.work, digit, thread, bins); });
  }
};

/// An inclusive scan over the threads. sums[0] is the input. Returns the output.
template <typename Sum>
RONDE_DEVICE const Sum* scan_block(Block& block, Sum (&sums)[2][kThreads]) {
  unsigned from = 0;
  for (unsigned distance = 1; distance < kThreads; distance *= 2, from ^= 1) {
    block.each([&](unsigned thread) { scan_step(sums[from], sums[from ^ 1], thread, distance); });
  }
  return sums[from];
}

struct PickKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table, unsigned digit) {
    RONDE_SHARED std::uint32_t sums[2][kThreads];
    Selection& selection = *table.entries[block.index()].selection;
    const std::uint32_t wanted = selection.wanted;
    block.each([&](unsigned thread) { sums[0][thread] = sum_of_bins(selection, digit, thread); });
    const std::uint32_t* const scanned = scan_block(block, sums);
    block.each([&](unsigned thread) { pick_digit(selection, digit, thread, scanned, wanted); });
  }
};

struct CountChunksKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    const TopBlock share = top_block(table, block.index());
    block.template each_group<kWarp>([&](const Group<kWarp>& warp) {
      const std::size_t chunk = chunk_of(share.index, warp.index());
      if (chunk >= tiles_of(share.work.count, kChunk)) return;
      const Counts all =
          warp.reduce([&](unsigned lane) { return count_chunk(share.work, chunk, lane); },
                      [](const Counts& a, const Counts& b) { return joined(a, b); });
      warp.each([&](unsigned lane) {
        if (lane == 0) share.work.chunks[chunk] = all;
      });
    });
  }
};

struct PlaceChunksKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    RONDE_SHARED Counts sums[2][kThreads];
    const TopWork& work = table.entries[block.index()];
    block.each([&](unsigned thread) { sums[0][thread] = sum_of_chunks(work, thread); });
    const Counts* const scanned = scan_block(block, sums);
    block.each([&](unsigned thread) { place_chunks(work, thread, scanned); });
  }
};

struct TakeChosenKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    const TopBlock share = top_block(table, block.index());
    block.template each_group<kWarp>([&](const Group<kWarp>& warp) {
      const std::size_t chunk = chunk_of(share.index, warp.index());
      if (chunk < tiles_of(share.work.count, kChunk)) take_chunk(warp, share.work, chunk);
    });
  }

 private:
  RONDE_DEVICE static Counts counts_of_bits(std::uint32_t above, std::uint32_t equal) {
    return {count_bits(above), count_bits(equal)};
  }

  RONDE_DEVICE static void take_chunk(const Group<kWarp>& warp, const TopWork& work,
                                      std::size_t chunk) {
    const std::uint32_t threshold = work.selection->threshold;
    Counts before = work.chunks[chunk];
    PerThread<float[kBatch]> rows;
    for (unsigned row = 0; row < kChunk / kWarp; row += kBatch) {
      warp.each([&](unsigned lane) { load_rows(work, chunk, row, lane, rows[lane]); });
      for (unsigned j = 0; j < kBatch; ++j) {
        const std::uint32_t above =
            warp.ballot([&](unsigned lane) { return magnitude_of(rows[lane][j]) > threshold; });
        const std::uint32_t equal =
            warp.ballot([&](unsigned lane) { return magnitude_of(rows[lane][j]) == threshold; });
        warp.each([&](unsigned lane) {
          const std::uint32_t lower = (1U << lane) - 1;
          take_chosen(work, chunk_index(chunk, row + j, lane), rows[lane][j],
                      joined(before, counts_of_bits(above & lower, equal & lower)));
        });
        before = joined(before, counts_of_bits(above, equal));
      }
    }
  }
};

/// Each step ends with a kernel of one block for each vector. In the other kernels many blocks
/// share a vector.
template <typename From, typename Table>
cudaError_t select(const Table& table, std::size_t blocks, cudaStream_t stream) {
  const Grid shared{.blocks = blocks};
  const Grid single{.blocks = table.count};
  cudaError_t code = launch<BeginKernel>(single, stream, table);
  for (unsigned digit = 0; digit < kDigits && code == cudaSuccess; ++digit) {
    code = digit == 0 ? launch<CountKernel<From>>(shared, stream, table, digit)
                      : launch<CountKernel<float>>(shared, stream, table, digit);
    if (code == cudaSuccess) code = launch<PickKernel>(single, stream, table, digit);
  }
  if (code == cudaSuccess) code = launch<CountChunksKernel>(shared, stream, table);
  if (code == cudaSuccess) code = launch<PlaceChunksKernel>(single, stream, table);
  if (code == cudaSuccess) code = launch<TakeChosenKernel>(shared, stream, table);
  return code;
}

TopWork work_of(const SelectRun& run) {
  auto* const selection = reinterpret_cast<Selection*>(run.scratch);
  return {.values = run.values,
          .factor = static_cast<float>(run.factor),
          .residual = run.residual,
          .left = run.left,
          .count = run.count,
          .k = run.most,
          .selection = selection,
          .chunks = reinterpret_cast<Counts*>(selection + 1),
          .indices = run.indices,
          .chosen = run.chosen,
          .found = run.found};
}

}  // namespace

std::size_t select_scratch(std::size_t count) noexcept {
  return sizeof(Selection) + tiles_of(count, kChunk) * sizeof(Counts);
}

cudaError_t launch_select(const SelectWork& work, cudaStream_t stream) {
  return launch_tables<SmallTopTable, LargeTopTable>(
      work.runs, {}, kTopTile,
      [&](const auto& table, std::size_t blocks) {
        cudaError_t code = cudaErrorNotSupported;
        visit_floating(work.from,
                       [&]<typename From>() { code = select<From>(table, blocks, stream); });
        return code;
      },
      work_of);
}

}  // namespace ronde::cuda
