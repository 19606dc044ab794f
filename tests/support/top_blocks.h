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

template <typename From>
void tally_on_host(const cuda::TopWork& work, unsigned digit) {
  using namespace cuda;
  if (digit > 0 && is_known(*work.selection)) return;
  for (std::size_t block = 0; block < tiles_of(work.count, kTopTile); ++block) {
    std::vector<std::uint32_t> bins(kMostBins);
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      tally_block<From>(work, digit, block, thread, bins.data());
    }
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      add_bins(work, digit, thread, bins.data());
    }
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

inline void place_chunks_on_host(const cuda::TopWork& work) {
  using namespace cuda;
  for (std::size_t chunk = 0; chunk < tiles_of(work.count, kChunk); ++chunk) {
    Tally all{};
    for (unsigned lane = 0; lane < kWarp; ++lane) all = joined(all, tally_chunk(work, chunk, lane));
    work.chunks[chunk] = all;
  }
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

/// All that launch_select() queues for one vector, which is not empty.
inline void select_top_on_host(const cuda::TopWork& work, DType type) {
  using namespace cuda;
  for (unsigned thread = 0; thread < kThreads; ++thread) begin_selection(work, thread);
  for (unsigned digit = 0; digit < kDigits; ++digit) {
    visit_floating(type, [&]<typename From>() { tally_on_host<From>(work, digit); });
    pick_on_host(work, digit);
  }
  place_chunks_on_host(work);
  for (std::size_t chunk = 0; chunk < tiles_of(work.count, kChunk); ++chunk) {
    take_chunk_on_host(work, chunk);
  }
}

}  // namespace ronde::test
