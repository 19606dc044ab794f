// top-k's kernels run block by block, warp by warp and thread by thread on the CPU, with the phases
// that all threads of a block end before one begins the next.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "backends/cuda/top_list.h"

namespace ronde::test {

/// What scan_block() of the kernels leaves behind.
template <typename Sum>
std::array<Sum, cuda::kThreads> scan_on_host(std::array<Sum, cuda::kThreads> sums) {
  std::array<Sum, cuda::kThreads> next{};
  for (unsigned distance = 1; distance < cuda::kThreads; distance *= 2) {
    for (unsigned thread = 0; thread < cuda::kThreads; ++thread) {
      cuda::scan_step(sums.data(), next.data(), thread, distance);
    }
    std::swap(sums, next);
  }
  return sums;
}

/// One block's histogram.
template <typename From>
void tally_on_host(const cuda::TopBlock& block, unsigned digit) {
  using namespace cuda;
  if (digit > 0 && is_known(*block.work.selection)) return;
  std::vector<std::uint32_t> bins(kMostBins);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    tally_block<From>(block.work, digit, block.index, thread, bins.data());
  }
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    add_bins(block.work, digit, thread, bins.data());
  }
}

inline void pick_on_host(const cuda::TopWork& work, unsigned digit) {
  using namespace cuda;
  const std::uint32_t wanted = work.selection->wanted;
  std::array<std::uint32_t, kThreads> sums{};
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    sums[thread] = sum_of_bins(*work.selection, digit, thread);
  }
  sums = scan_on_host(sums);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    pick_digit(*work.selection, digit, thread, sums.data(), wanted);
  }
}

inline void tally_chunk_on_host(const cuda::TopWork& work, std::size_t chunk) {
  using namespace cuda;
  Tally all{};
  for (unsigned lane = 0; lane < kWarp; ++lane) all = joined(all, tally_chunk(work, chunk, lane));
  work.chunks[chunk] = all;
}

inline void place_chunks_on_host(const cuda::TopWork& work) {
  using namespace cuda;
  std::array<Tally, kThreads> sums{};
  for (unsigned thread = 0; thread < kThreads; ++thread) sums[thread] = sum_of_chunks(work, thread);
  sums = scan_on_host(sums);
  for (unsigned thread = 0; thread < kThreads; ++thread) place_chunks(work, thread, sums.data());
}

/// The bits that a warp's ballot has for lanes whose magnitudes are `is` the threshold's.
template <typename Is>
std::uint32_t ballot_on_host(const float (&rows)[cuda::kWarp][cuda::kBatch], unsigned j, Is is) {
  std::uint32_t bits = 0;
  for (unsigned lane = 0; lane < cuda::kWarp; ++lane) {
    bits |= is(cuda::magnitude_of(rows[lane][j])) ? 1U << lane : 0U;
  }
  return bits;
}

inline cuda::Tally tally_of_bits(std::uint32_t above, std::uint32_t equal) {
  return {static_cast<std::uint32_t>(std::popcount(above)),
          static_cast<std::uint32_t>(std::popcount(equal))};
}

inline void take_chunk_on_host(const cuda::TopWork& work, std::size_t chunk) {
  using namespace cuda;
  const std::uint32_t threshold = work.selection->threshold;
  Tally before = work.chunks[chunk];
  float rows[kWarp][kBatch];
  for (unsigned row = 0; row < kChunk / kWarp; row += kBatch) {
    for (unsigned lane = 0; lane < kWarp; ++lane) load_rows(work, chunk, row, lane, rows[lane]);
    for (unsigned j = 0; j < kBatch; ++j) {
      const auto above = ballot_on_host(rows, j, [&](auto bits) { return bits > threshold; });
      const auto equal = ballot_on_host(rows, j, [&](auto bits) { return bits == threshold; });
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        const std::uint32_t lower = (1U << lane) - 1;
        take_chosen(work, chunk_index(chunk, row + j, lane), rows[lane][j],
                    joined(before, tally_of_bits(above & lower, equal & lower)));
      }
      before = joined(before, tally_of_bits(above, equal));
    }
  }
}

/// Calls body(work, chunk) for the chunks of all blocks.
template <typename Table, typename Body>
void for_chunks(const Table& table, std::size_t blocks, const Body& body) {
  using namespace cuda;
  for (std::size_t i = 0; i < blocks; ++i) {
    const TopBlock block = top_block(table, i);
    for (unsigned warp = 0; warp < kThreads / kWarp; ++warp) {
      const std::size_t chunk = chunk_of(block.index, warp);
      if (chunk < tiles_of(block.work.count, kChunk)) body(block.work, chunk);
    }
  }
}

/// All that launch_select() queues.
template <typename Table>
void select_on_host(const Table& table, DType type, std::size_t blocks) {
  using namespace cuda;
  for (unsigned i = 0; i < table.count; ++i) {
    for (unsigned thread = 0; thread < kThreads; ++thread) begin_selection(table.strips[i], thread);
  }
  for (unsigned digit = 0; digit < kDigits; ++digit) {
    for (std::size_t i = 0; i < blocks; ++i) {
      visit_floating(type,
                     [&]<typename From>() { tally_on_host<From>(top_block(table, i), digit); });
    }
    for (unsigned i = 0; i < table.count; ++i) pick_on_host(table.strips[i], digit);
  }
  for_chunks(table, blocks, tally_chunk_on_host);
  for (unsigned i = 0; i < table.count; ++i) place_chunks_on_host(table.strips[i]);
  for_chunks(table, blocks, take_chunk_on_host);
}

}  // namespace ronde::test
