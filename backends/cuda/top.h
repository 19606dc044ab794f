// Selects the k largest elements of a vector on the device: those that
// ops/compression/sparse/select.h selects. Three histograms of the digits of the magnitudes, the
// highest digit first, give the threshold. It is the smallest selected magnitude. Then each warp
// counts the selected elements of its chunk, one block scans these counts, and each warp writes its
// elements to their places in the list: ascending, whatever the order in which warps run. The host
// waits for no step. Selected elements become zeros in the vector and the others stay, so error
// feedback needs no pass of its own. Source: Alabi et al., "Fast k-Selection Algorithms for
// Graphics Processing Units", 2012 (radix select).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

inline constexpr unsigned kDigits = 3;       ///< Of 11, 10 and 10 bits.
inline constexpr unsigned kMostBins = 2048;  ///< Of a digit.
inline constexpr unsigned kBatch = 8;        ///< Values that a thread loads at once.
inline constexpr std::size_t kCountTile = std::size_t{kBatch} * kThreads;  ///< Elements.
inline constexpr std::size_t kChunk = std::size_t{8} * kBatch * kWarp;     ///< Elements of a warp.
inline constexpr std::size_t kTopTile = kThreads / kWarp * kChunk;         ///< Elements of a block.
inline constexpr unsigned kMagnitude = 0x7fffffffU;

RONDE_HOST_DEVICE constexpr unsigned digit_shift(unsigned digit) { return 10 * (2 - digit); }
RONDE_HOST_DEVICE constexpr unsigned digit_bins(unsigned digit) {
  return digit == 0 ? kMostBins : kMostBins / 2;
}

/// The state of one vector's selection. In the end all magnitudes above `threshold` are selected,
/// and the first `wanted` of those equal to it.
struct Selection {
  std::uint32_t threshold;
  std::uint32_t wanted;  ///< Still to select among those that share the known digits.
  std::uint32_t bins[kDigits][kMostBins];
};

/// Counts of elements, of a chunk or of all chunks before it.
struct Counts {
  std::uint32_t above;  ///< Magnitudes above the threshold.
  std::uint32_t equal;  ///< Magnitudes equal to it.
};

/// A vector to select from: factor * values + residual.
struct TopWork {
  const void* values = nullptr;
  float factor = 1.0F;
  const float* residual = nullptr;  ///< May be null.
  /// Output: the vector with zeros for selected elements; may be `residual`.
  float* left = nullptr;
  std::size_t count = 0;  ///< Below 2^32.
  std::size_t k = 0;
  Selection* selection = nullptr;    ///< Scratch.
  Counts* chunks = nullptr;          ///< Scratch: tiles_of(count, kChunk) of them.
  std::uint32_t* indices = nullptr;  ///< Output, ascending; room for k.
  float* chosen = nullptr;           ///< Output: the values; room for k.
  std::uint32_t* found = nullptr;    ///< Output: the number of selected elements.
};

using SmallTopTable = LaunchTable<NoTraits, TopWork, 32>;
using LargeTopTable = LaunchTable<NoTraits, TopWork, 330>;

/// One of the blocks that share a vector.
struct TopBlock {
  const TopWork& work;
  std::size_t index;
};
/// Block number `block` of a launch.
template <typename Table>
RONDE_HOST_DEVICE inline TopBlock top_block(const Table& table, std::size_t block) {
  const auto& entry = table.entries[find_entry(table.entries, table.count, block)];
  return {entry, block - entry.first_tile};
}

/// The chunk of a block's warp, which may lie beyond the vector's last.
RONDE_HOST_DEVICE constexpr std::size_t chunk_of(std::size_t block, unsigned warp) {
  return block * (kThreads / kWarp) + warp;
}

RONDE_HOST_DEVICE inline std::uint32_t magnitude_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & kMagnitude;
}

/// Counts one element; atomic on the device.
RONDE_HOST_DEVICE inline void count_one(std::uint32_t& counter) {
#if defined(__CUDA_ARCH__)
  atomicAdd(&counter, 1U);
#else
  ++counter;
#endif
}

/// The work of a thread before the first histogram.
RONDE_HOST_DEVICE inline void begin_selection(const TopWork& work, unsigned thread) {
  Selection& selection = *work.selection;
  if (thread == 0) {
    selection.threshold = work.k == 0 ? kMagnitude : 0;
    selection.wanted = static_cast<std::uint32_t>(work.k < work.count ? work.k : work.count);
    *work.found = 0;
  }
  for (auto& bins : selection.bins) {
    for (unsigned bin = thread; bin < kMostBins; bin += kThreads) bins[bin] = 0;
  }
}

/// True where the threshold is known: all elements but zeros are selected, or none is.
RONDE_HOST_DEVICE inline bool is_known(const Selection& selection) { return selection.wanted == 0; }

/// One value of the vector. Later digits read it from `left`.
template <typename From>
RONDE_HOST_DEVICE inline float vector_at(const TopWork& work, unsigned digit, std::size_t i) {
  if (digit > 0) return work.left[i];
  const auto value = static_cast<float>(load(static_cast<const From*>(work.values)[i]));
  const float given = work.factor == 1.0F ? value : product(work.factor, value);
  return work.residual == nullptr ? given : sum(given, work.residual[i]);
}

/// Counts a thread's elements of a tile in the histogram of one digit. Zeros do not count, nor do
/// elements that differ from the threshold in an earlier digit. The first digit reads values of
/// type From and writes the vector to `left`.
template <typename From>
RONDE_HOST_DEVICE inline void count_tile(const TopWork& work, unsigned digit, std::size_t tile,
                                         unsigned thread, std::uint32_t* bins) {
  const std::size_t begin = tile * kCountTile + thread;
  float batch[kBatch];  // all loads start before the first value is used
  for (unsigned j = 0; j < kBatch; ++j) {
    const std::size_t i = begin + std::size_t{j} * kThreads;
    batch[j] = i < work.count ? vector_at<From>(work, digit, i) : 0.0F;
  }
  const unsigned shift = digit_shift(digit);
  const unsigned known = shift + (digit == 0 ? 11 : 10);
  const std::uint32_t agreed = digit == 0 ? 0 : work.selection->threshold >> known;
  for (unsigned j = 0; j < kBatch; ++j) {
    const std::size_t i = begin + std::size_t{j} * kThreads;
    if (digit == 0 && i < work.count) work.left[i] = batch[j];
    const std::uint32_t magnitude = magnitude_of(batch[j]);
    if (magnitude == 0 || magnitude >> known != agreed) continue;
    count_one(bins[magnitude >> shift & (digit_bins(digit) - 1)]);
  }
}

/// Counts a thread's elements of all tiles of a block.
template <typename From>
RONDE_HOST_DEVICE inline void count_block(const TopWork& work, unsigned digit, std::size_t block,
                                          unsigned thread, std::uint32_t* bins) {
  const std::size_t begin = block * (kTopTile / kCountTile);
  for (std::size_t tile = begin; tile < begin + kTopTile / kCountTile; ++tile) {
    if (tile * kCountTile < work.count) count_tile<From>(work, digit, tile, thread, bins);
  }
}

/// Adds a block's histogram to the vector's.
RONDE_HOST_DEVICE inline void add_bins(const TopWork& work, unsigned digit, unsigned thread,
                                       const std::uint32_t* bins) {
  for (unsigned bin = thread; bin < digit_bins(digit); bin += kThreads) {
    if (bins[bin] == 0) continue;
#if defined(__CUDA_ARCH__)
    atomicAdd(&work.selection->bins[digit][bin], bins[bin]);
#else
    work.selection->bins[digit][bin] += bins[bin];
#endif
  }
}

RONDE_HOST_DEVICE inline std::uint32_t joined(std::uint32_t a, std::uint32_t b) { return a + b; }
RONDE_HOST_DEVICE inline Counts joined(const Counts& a, const Counts& b) {
  return {a.above + b.above, a.equal + b.equal};
}

/// One step of an inclusive scan over the threads. The distances are 1, 2, 4 to kThreads / 2. After
/// the last step, `to` has the sum of the inputs of a thread and all before it.
template <typename Sum>
RONDE_HOST_DEVICE inline void scan_step(const Sum* from, Sum* to, unsigned thread,
                                        unsigned distance) {
  to[thread] = thread < distance ? from[thread] : joined(from[thread - distance], from[thread]);
}

/// Elements in a thread's bins of a digit. The first thread has the highest bins.
RONDE_HOST_DEVICE inline std::uint32_t sum_of_bins(const Selection& selection, unsigned digit,
                                                   unsigned thread) {
  const unsigned mine = digit_bins(digit) / kThreads;
  const unsigned end = digit_bins(digit) - thread * mine;
  std::uint32_t all = 0;
  for (unsigned bin = end - mine; bin < end; ++bin) all += selection.bins[digit][bin];
  return all;
}

/// Appends to the threshold the digit whose bin has the last wanted element. The thread with that
/// bin does it. `scanned`: the scan of sum_of_bins(). `wanted`: the selection's, read before this
/// phase.
RONDE_HOST_DEVICE inline void pick_digit(Selection& selection, unsigned digit, unsigned thread,
                                         const std::uint32_t* scanned, std::uint32_t wanted) {
  const unsigned mine = digit_bins(digit) / kThreads;
  std::uint32_t before = thread == 0 ? 0 : scanned[thread - 1];
  if (thread == kThreads - 1 && scanned[thread] < wanted) selection.wanted = 0;  // take all
  if (wanted <= before || wanted > scanned[thread]) return;
  unsigned bin = digit_bins(digit) - thread * mine - 1;
  for (; before + selection.bins[digit][bin] < wanted; --bin) before += selection.bins[digit][bin];
  selection.threshold |= bin << digit_shift(digit);
  selection.wanted = wanted - before;
}

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
