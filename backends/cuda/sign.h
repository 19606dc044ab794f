// onebit on the device. Frames have the bits of ops/compression/codecs/onebit.cc. Sixteen threads
// encode one block, because the CPU's codec adds sixteen sums side by side: the same numbers are
// added in the same order. Each sum is one operation, so the compiler can fuse nothing.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

/// First phase: writes the tile's values to `values`, which all threads of the block share.
template <typename From, typename Table>
RONDE_HOST_DEVICE inline void gather_tile(const Table& table, std::size_t tile, unsigned thread,
                                          float* values) {
  const FrameCode& code = table.traits.code;
  const auto part = tile_of(table, tile, encoded_tile(code));
  for (std::size_t i = thread; i < part.count; i += kThreads) {
    const Place place = place_of(code, part, i);
    values[i] = value_at<From>(table.traits, part.entry, part.begin + i, place);
  }
}

/// One block of values of a gathered tile.
struct SignBlock {
  const float* values;
  std::size_t count;  ///< 0: the tile has fewer blocks.
  float* lost;        ///< May be null.
  std::uint8_t* frame;
};

template <typename Table>
RONDE_HOST_DEVICE inline SignBlock sign_block(const Table& table, std::size_t tile, unsigned group,
                                              const float* values) {
  const FrameCode& code = table.traits.code;
  const auto part = tile_of(table, tile, encoded_tile(code));
  const std::size_t begin = group * code.block;
  if (begin >= part.count) return {};
  const std::size_t rest = part.count - begin;
  const EncodeRun& entry = part.entry;
  return {.values = values + begin,
          .count = rest < code.block ? rest : code.block,
          .lost = entry.lost == nullptr ? nullptr : entry.lost + part.begin + begin,
          .frame = bytes_of(entry.frame) + place_of(code, part, begin).at};
}

/// The sums of one lane over its values of a block.
struct LaneSums {
  float above;
  float below;
  std::uint32_t negative;  ///< How many are below zero.
  std::uint32_t largest;   ///< Magnitude, as bits.
};

/// The values that the two signs of a block stand for.
struct SignMeans {
  float above;  ///< Mean of the values that are not below zero.
  float below;
};

/// Second phase: sums every sixteenth value, beginning with number `lane`.
RONDE_HOST_DEVICE inline LaneSums lane_sums(const SignBlock& block, unsigned lane) {
  LaneSums sums{};
  for (std::size_t i = lane; i < block.count; i += kSignLanes) {
    const float value = block.values[i];
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
    if (magnitude > sums.largest) sums.largest = magnitude;
    if (value > 0.0F) sums.above += value;
    if (value < 0.0F) {
      sums.below += value;
      ++sums.negative;
    }
  }
  return sums;
}

/// The means where fp32 sums overflow: adds one value after the other in fp64.
RONDE_HOST_DEVICE inline SignMeans wide_means(const SignBlock& block, std::uint32_t negative) {
  double above = 0;
  double below = 0;
  for (std::size_t i = 0; i < block.count; ++i) {
    const float value = block.values[i];
    (value < 0.0F ? below : above) += static_cast<double>(value);
  }
  const auto positive = static_cast<double>(block.count - negative);
  return {positive == 0 ? 0.0F : static_cast<float>(above / positive),
          negative == 0 ? 0.0F : static_cast<float>(below / static_cast<double>(negative))};
}

/// Third phase: the means from the sums of all lanes.
RONDE_HOST_DEVICE inline SignMeans sign_means(const SignBlock& block, const LaneSums* lanes) {
  LaneSums all{};
  for (unsigned lane = 0; lane < kSignLanes; ++lane) {
    all.above += lanes[lane].above;
    all.below += lanes[lane].below;
    all.negative += lanes[lane].negative;
    if (lanes[lane].largest > all.largest) all.largest = lanes[lane].largest;
  }
  if (all.largest >= 0x7f800000U) {  // NaN or infinity
    const float nan = std::bit_cast<float>(0x7fc00000U);
    return {nan, nan};
  }
  const auto below = static_cast<float>(all.negative);
  const float above = static_cast<float>(block.count) - below;
  const SignMeans means{above == 0.0F ? 0.0F : all.above / above,
                        below == 0.0F ? 0.0F : all.below / below};
  if (is_finite(means.above) && is_finite(means.below)) return means;
  return wide_means(block, all.negative);
}

/// Fourth phase, for one value: true where it is not below zero. Its difference from the mean
/// becomes the residual. False beyond the end.
RONDE_HOST_DEVICE inline bool sign_at(const SignBlock& block, std::size_t i,
                                      const SignMeans& means) {
  if (i >= block.count) return false;
  const float value = block.values[i];
  const bool sign = value >= 0.0F;
  if (block.lost != nullptr) block.lost[i] = value - (sign ? means.above : means.below);
  return sign;
}

/// Writes the sixteen signs from value `first` on. The first two lanes write a byte each.
RONDE_HOST_DEVICE inline void write_signs(const SignBlock& block, std::size_t first,
                                          std::uint32_t signs, unsigned lane) {
  if (lane > 1 || first + std::size_t{8} * lane >= block.count) return;
  block.frame[sizeof(SignMeans) + first / 8 + lane] = static_cast<std::uint8_t>(signs >> 8 * lane);
}

/// Writes the means. The first eight lanes write a byte each.
RONDE_HOST_DEVICE inline void write_means(const SignBlock& block, const SignMeans& means,
                                          unsigned lane) {
  if (block.count == 0 || lane >= sizeof means) return;
  const auto bits = std::bit_cast<std::uint32_t>(lane < sizeof(float) ? means.above : means.below);
  block.frame[lane] = static_cast<std::uint8_t>(bits >> lane % sizeof(float) * 8);
}

}  // namespace ronde::cuda
