// onebit on the device, the same code on the host for its tests: the frames, bit for bit, of
// ops/compression/onebit.h. Sixteen threads take one block of values, as the CPU's codec adds up
// sixteen sums side by side whatever the width of its registers: the same numbers are added in the
// same order. Sums are of one operation each, so that nothing can be fused.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

inline constexpr unsigned kSignLanes = 16;                      ///< Threads for a block of values.
inline constexpr unsigned kSignGroups = kThreads / kSignLanes;  ///< Such blocks for one of threads.

/// What one lane adds up of a block of values.
struct LaneSums {
  float above;
  float below;
  std::uint32_t negative;  ///< How many are below zero.
  std::uint32_t largest;   ///< Magnitude, as bits.
};

/// What the two signs mean in a block.
struct SignMeans {
  float above = 0.0F;  ///< Of the values that are not below zero.
  float below = 0.0F;
};

/// First phase: every sixteenth value of block `index`, from the lane's own on.
RONDE_HOST_DEVICE inline LaneSums lane_sums(const EncodeWork& work, std::size_t index,
                                            unsigned lane) {
  const BlockOf block(work, index);
  LaneSums sums{};
  for (std::size_t i = lane; i < block.count; i += kSignLanes) {
    const float value = value_at(work, block.begin + i);
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

/// For sums beyond the range of fp32: one value after the other.
RONDE_HOST_DEVICE inline SignMeans wide_means(const EncodeWork& work, std::size_t index,
                                              std::uint32_t negative) {
  const BlockOf block(work, index);
  double above = 0;
  double below = 0;
  for (std::size_t i = 0; i < block.count; ++i) {
    const float value = value_at(work, block.begin + i);
    (value < 0.0F ? below : above) += static_cast<double>(value);
  }
  const auto positive = static_cast<double>(block.count - negative);
  return {positive == 0 ? 0.0F : static_cast<float>(above / positive),
          negative == 0 ? 0.0F : static_cast<float>(below / static_cast<double>(negative))};
}

/// Second phase: what all lanes have together. It may read the values again, so that no lane goes
/// on to the third before all are through.
RONDE_HOST_DEVICE inline SignMeans sign_means(const EncodeWork& work, std::size_t index,
                                              const LaneSums* lanes) {
  LaneSums all{};
  for (unsigned lane = 0; lane < kSignLanes; ++lane) {
    all.above += lanes[lane].above;
    all.below += lanes[lane].below;
    all.negative += lanes[lane].negative;
    if (lanes[lane].largest > all.largest) all.largest = lanes[lane].largest;
  }
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  if (all.largest >= kInfinity) {
    const float nan = std::bit_cast<float>(0x7fc00000U);
    return {nan, nan};
  }
  const auto below = static_cast<float>(all.negative);
  const float above = static_cast<float>(BlockOf(work, index).count) - below;
  const SignMeans means{above == 0.0F ? 0.0F : all.above / above,
                        below == 0.0F ? 0.0F : all.below / below};
  const auto is_finite = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & kInfinity) != kInfinity;
  };
  if (is_finite(means.above) && is_finite(means.below)) return means;
  return wide_means(work, index, all.negative);
}

/// Third phase, of one value: whether it is not below zero; what its mean loses of it becomes the
/// residual. False beyond the end.
RONDE_HOST_DEVICE inline bool sign_at(const EncodeWork& work, const BlockOf<EncodeWork>& block,
                                      std::size_t i, const SignMeans& means) {
  if (i >= block.count) return false;
  const float value = value_at(work, block.begin + i);
  const bool sign = value >= 0.0F;
  if (work.residual != nullptr) {
    work.residual[block.begin + i] = value - (sign ? means.above : means.below);
  }
  return sign;
}

/// Writes the sixteen signs from value `first` on: a byte each by the first two lanes.
RONDE_HOST_DEVICE inline void write_signs(const BlockOf<EncodeWork>& block, std::size_t first,
                                          std::uint32_t signs, unsigned lane) {
  if (lane > 1 || first + std::size_t{8} * lane >= block.count) return;
  block.frame[sizeof(SignMeans) + first / 8 + lane] = static_cast<std::uint8_t>(signs >> 8 * lane);
}

/// Writes the means: a byte each by the first eight lanes.
RONDE_HOST_DEVICE inline void write_means(const BlockOf<EncodeWork>& block, const SignMeans& means,
                                          unsigned lane) {
  if (lane >= sizeof means) return;
  const auto bits = std::bit_cast<std::uint32_t>(lane < sizeof(float) ? means.above : means.below);
  block.frame[lane] = static_cast<std::uint8_t>(bits >> lane % sizeof(float) * 8);
}

/// What a sign of a frame stands for.
RONDE_HOST_DEVICE inline float sign_mean(const std::uint8_t* frame, bool sign) {
  const std::uint8_t* const from = frame + (sign ? 0 : sizeof(float));
  std::uint32_t bits = 0;
  for (unsigned byte = 0; byte < sizeof bits; ++byte) {
    bits |= static_cast<std::uint32_t>(from[byte]) << 8 * byte;
  }
  return std::bit_cast<float>(bits);
}

/// What a lane does of a block on its way back.
RONDE_HOST_DEVICE inline void decode_signs(const DecodeWork& work, std::size_t index,
                                           unsigned lane) {
  const BlockOf block(work, index);
  const float above = sign_mean(block.frame, true);
  const float below = sign_mean(block.frame, false);
  const std::uint8_t* const signs = block.frame + sizeof(SignMeans);
  for (std::size_t i = lane; i < block.count; i += kSignLanes) {
    const float value = (signs[i / 8] >> i % 8 & 1) != 0 ? above : below;
    float& out = work.out[block.begin + i];
    out = work.add ? out + value : value;
  }
}

}  // namespace ronde::cuda
