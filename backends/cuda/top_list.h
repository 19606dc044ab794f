// Writes the list of a vector's selected elements, ascending, once top.h knows the threshold. Each
// warp counts the selected elements of its chunk, one block scans these counts, and each warp
// writes its elements to their places. The result does not depend on the order in which warps run.
#pragma once

#include "backends/cuda/top.h"

namespace ronde::cuda {

/// The index of a lane's element in row `row` of a chunk.
RONDE_HOST_DEVICE constexpr std::size_t chunk_index(std::size_t chunk, unsigned row,
                                                    unsigned lane) {
  return chunk * kChunk + std::size_t{row} * kWarp + lane;
}

/// Reads a lane's next kBatch rows of a chunk; zeros beyond the end.
RONDE_HOST_DEVICE inline void load_rows(const TopWork& work, std::size_t chunk, unsigned row,
                                        unsigned lane, float (&rows)[kBatch]) {
  for (unsigned j = 0; j < kBatch; ++j) {
    const std::size_t i = chunk_index(chunk, row + j, lane);
    rows[j] = i < work.count ? work.left[i] : 0.0F;
  }
}

/// Counts a lane's elements of a chunk.
RONDE_HOST_DEVICE inline Counts count_chunk(const TopWork& work, std::size_t chunk, unsigned lane) {
  const std::uint32_t threshold = work.selection->threshold;
  Counts counts{};
  float rows[kBatch];
  for (unsigned row = 0; row < kChunk / kWarp; row += kBatch) {
    load_rows(work, chunk, row, lane, rows);
    for (const float value : rows) {
      const std::uint32_t magnitude = magnitude_of(value);
      counts.above += magnitude > threshold ? 1 : 0;
      counts.equal += magnitude == threshold ? 1 : 0;
    }
  }
  return counts;
}

/// The chunks [begin, end) that a thread scans: equally many for each thread.
struct ScanShare {
  RONDE_HOST_DEVICE ScanShare(const TopWork& work, unsigned thread) {
    const std::size_t all = tiles_of(work.count, kChunk);
    const std::size_t each = tiles_of(all, kThreads);
    begin = thread * each < all ? thread * each : all;
    end = begin + each < all ? begin + each : all;
  }
  std::size_t begin;
  std::size_t end;
};

RONDE_HOST_DEVICE inline Counts sum_of_chunks(const TopWork& work, unsigned thread) {
  const ScanShare share(work, thread);
  Counts all{};
  for (std::size_t chunk = share.begin; chunk < share.end; ++chunk) {
    all = joined(all, work.chunks[chunk]);
  }
  return all;
}

/// The number of selected elements among those counted: all above the threshold, and of those equal
/// to it as many as are wanted.
RONDE_HOST_DEVICE inline std::uint32_t chosen_of(const Counts& counts, std::uint32_t wanted) {
  return counts.above + (counts.equal < wanted ? counts.equal : wanted);
}

/// Replaces each chunk's counts by those of all chunks before it. `scanned`: the scan of
/// sum_of_chunks().
RONDE_HOST_DEVICE inline void place_chunks(const TopWork& work, unsigned thread,
                                           const Counts* scanned) {
  const ScanShare share(work, thread);
  Counts before = thread == 0 ? Counts{} : scanned[thread - 1];
  for (std::size_t chunk = share.begin; chunk < share.end; ++chunk) {
    const Counts after = joined(before, work.chunks[chunk]);
    work.chunks[chunk] = before;
    before = after;
  }
  if (thread == kThreads - 1) {
    *work.found = chosen_of(scanned[thread], work.selection->wanted);
  }
}

/// Writes element i with value `value` to the list, if it is selected. `before`: the counts of all
/// elements before it.
RONDE_HOST_DEVICE inline void take_chosen(const TopWork& work, std::size_t i, float value,
                                          const Counts& before) {
  const Selection& selection = *work.selection;
  const std::uint32_t magnitude = magnitude_of(value);
  const bool is_tie = magnitude == selection.threshold && before.equal < selection.wanted;
  if (magnitude <= selection.threshold && !is_tie) return;
  const std::uint32_t place = chosen_of(before, selection.wanted);
  work.indices[place] = static_cast<std::uint32_t>(i);
  work.chosen[place] = value;
  work.left[i] = 0.0F;
}

}  // namespace ronde::cuda
