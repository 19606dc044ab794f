// The k largest of a vector on the device, the same code on the host for its tests: the elements
// that ops/compression/sparse/select.h chooses. Three histograms of the digits of their magnitudes,
// the highest digit first, give the smallest magnitude that is chosen; counting what each chunk of
// the vector has of it and above tells every chunk where its elements belong in the list, which is
// so in ascending order. The host waits for none of it. What is chosen leaves the vector, and the
// rest stays: error feedback costs no pass of its own.
// Source: Alabi et al., "Fast k-Selection Algorithms for Graphics Processing Units", 2012 (radix
// select).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

inline constexpr unsigned kDigits = 3;       ///< Of 11, 10 and 10 bits.
inline constexpr unsigned kMostBins = 2048;  ///< Of a digit.
inline constexpr unsigned kBatch = 8;        ///< Values a thread has at once.
inline constexpr std::size_t kTallyTile = std::size_t{kBatch} * kThreads;  ///< Elements.
inline constexpr std::size_t kChunk = std::size_t{8} * kBatch * kWarp;     ///< Elements of a warp.
inline constexpr std::size_t kTopTile = kThreads / kWarp * kChunk;         ///< Elements of a block.
inline constexpr unsigned kMagnitude = 0x7fffffffU;

RONDE_HOST_DEVICE constexpr unsigned digit_shift(unsigned digit) { return 10 * (2 - digit); }
RONDE_HOST_DEVICE constexpr unsigned digit_bins(unsigned digit) {
  return digit == 0 ? kMostBins : kMostBins / 2;
}

/// What is known of the smallest magnitude that is chosen. All magnitudes above `threshold` are,
/// and of those equal to it the first `wanted`.
struct Selection {
  std::uint32_t threshold;
  std::uint32_t wanted;  ///< Of the magnitudes whose upper digits are those of `threshold`.
  std::uint32_t bins[kDigits][kMostBins];
};

/// Elements of a chunk, or of all before it, by their magnitudes.
struct Tally {
  std::uint32_t above;  ///< The threshold.
  std::uint32_t equal;  ///< To it.
};

/// A vector to choose from: factor * values + residual.
struct TopWork {
  const void* values = nullptr;
  float factor = 1.0F;
  const float* residual = nullptr;  ///< May be null.
  float* left = nullptr;  ///< Gets what is not chosen, zeros elsewhere; may be `residual`.
  std::size_t count = 0;  ///< Below 2^32.
  std::size_t k = 0;
  Selection* selection = nullptr;    ///< Scratch.
  Tally* chunks = nullptr;           ///< Scratch: tiles_of(count, kChunk) of them.
  std::uint32_t* indices = nullptr;  ///< Of the chosen elements, ascending; room for k.
  float* chosen = nullptr;           ///< Their values; room for k.
  std::uint32_t* found = nullptr;    ///< Becomes how many they are.
};

/// One vector of a launch, and the number of its first block; see codecs.h.
struct TopStrip : TopWork {
  std::size_t first_tile;
};
struct TopTraits {};
using SmallTopTable = CodecTable<TopTraits, TopStrip, 32>;
using LargeTopTable = CodecTable<TopTraits, TopStrip, 330>;
static_assert(sizeof(LargeTopTable) <= 32764);

/// A block of those that share a vector.
struct TopBlock {
  const TopWork& work;
  std::size_t index;
};
/// What block number `block` of a launch belongs to.
template <typename Table>
RONDE_HOST_DEVICE inline TopBlock top_block(const Table& table, std::size_t block) {
  const TopStrip& strip = table.strips[find_strip(table.strips, table.count, block)];
  return {strip, block - strip.first_tile};
}

/// The chunk of one of a block's warps; there may be none of that number.
RONDE_HOST_DEVICE constexpr std::size_t chunk_of(std::size_t block, unsigned warp) {
  return block * (kThreads / kWarp) + warp;
}

RONDE_HOST_DEVICE inline std::uint32_t magnitude_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & kMagnitude;
}

/// Counts one element; on the device beside other threads.
RONDE_HOST_DEVICE inline void count_one(std::uint32_t& counter) {
#if defined(__CUDA_ARCH__)
  atomicAdd(&counter, 1U);
#else
  ++counter;
#endif
}

/// What a thread does before anything is counted.
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

/// Whether the threshold is known already: all that is not zero is chosen, or nothing is.
RONDE_HOST_DEVICE inline bool is_known(const Selection& selection) { return selection.wanted == 0; }

/// One value of the vector; the first to ask for it writes it to `left`.
template <typename From>
RONDE_HOST_DEVICE inline float vector_at(const TopWork& work, unsigned digit, std::size_t i) {
  if (digit > 0) return work.left[i];
  const auto value = static_cast<float>(load(static_cast<const From*>(work.values)[i]));
  const float given = work.factor == 1.0F ? value : product(work.factor, value);
  return work.residual == nullptr ? given : sum(given, work.residual[i]);
}

/// What a thread counts of a tile in the histogram of one digit: elements that are not zero and
/// agree with the threshold in the digits before. `From`: the type of the values, which are read
/// for the first digit.
template <typename From>
RONDE_HOST_DEVICE inline void tally_tile(const TopWork& work, unsigned digit, std::size_t tile,
                                         unsigned thread, std::uint32_t* bins) {
  const std::size_t begin = tile * kTallyTile + thread;
  float batch[kBatch];  // all are on their way before the first is looked at
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

/// What a thread counts of all tiles of a block.
template <typename From>
RONDE_HOST_DEVICE inline void tally_block(const TopWork& work, unsigned digit, std::size_t block,
                                          unsigned thread, std::uint32_t* bins) {
  const std::size_t begin = block * (kTopTile / kTallyTile);
  for (std::size_t tile = begin; tile < begin + kTopTile / kTallyTile; ++tile) {
    if (tile * kTallyTile < work.count) tally_tile<From>(work, digit, tile, thread, bins);
  }
}

/// Adds a block's histogram to that of all.
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
RONDE_HOST_DEVICE inline Tally joined(const Tally& a, const Tally& b) {
  return {a.above + b.above, a.equal + b.equal};
}

/// One of the steps, with distances 1, 2, 4 to kThreads / 2, after which `to` holds for each thread
/// the sum of what it and all before it began with.
template <typename Sum>
RONDE_HOST_DEVICE inline void scan_step(const Sum* from, Sum* to, unsigned thread,
                                        unsigned distance) {
  to[thread] = thread < distance ? from[thread] : joined(from[thread - distance], from[thread]);
}

/// How many elements a thread's bins of a digit hold: those of the first thread are the highest.
RONDE_HOST_DEVICE inline std::uint32_t sum_of_bins(const Selection& selection, unsigned digit,
                                                   unsigned thread) {
  const unsigned mine = digit_bins(digit) / kThreads;
  const unsigned end = digit_bins(digit) - thread * mine;
  std::uint32_t all = 0;
  for (unsigned bin = end - mine; bin < end; ++bin) all += selection.bins[digit][bin];
  return all;
}

/// Makes the digit of the bin in which the last wanted element is part of the threshold: done by
/// the thread that has that bin. `scanned`: sum_of_bins() after all steps of the scan; `wanted`:
/// the selection's, read before any thread is here.
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

}  // namespace ronde::cuda
