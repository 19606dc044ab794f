// Values that try every rule of the formats which compression on the device shares with the CPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "core/ports/device_codecs.h"
#include "ops/compression/codec.h"
#include "ops/compression/spec.h"

namespace ronde::test {

/// A format on the device, and what users call it.
struct SharedFormat {
  FrameFormat format;
  const char* spec;
};
inline constexpr SharedFormat kSharedFormats[] = {
    {FrameFormat::kFp16, "fp16"},     {FrameFormat::kBf16, "bf16"},
    {FrameFormat::kInt8, "int8"},     {FrameFormat::kInt8, "int8:block=64,rounding=stochastic"},
    {FrameFormat::kInt4, "int4"},     {FrameFormat::kInt4, "int4:block=4096,rounding=stochastic"},
    {FrameFormat::kOnebit, "onebit"}, {FrameFormat::kOnebit, "onebit:block=4096"},
};

/// Blocks of unlike magnitude: ordinary, tiny, huge, of zeros, and with `odd` among them.
inline std::vector<float> blocks_of_values(std::size_t count, float odd = 0.0F) {
  constexpr float kMagnitudes[] = {1.0F, 1e-40F, 3e38F, 0.0F, 7e4F, 3e-36F};
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float magnitude = kMagnitudes[i / 512 % 6];
    values[i] = std::fmin(std::fmax(normal(random) / 4, -1.0F), 1.0F) * magnitude;
  }
  if (count > 600) values[600] = odd;
  return values;
}

/// The code that a spec stands for.
inline FrameCode code_of(const SharedFormat& shared, const CompressionSpec& spec) {
  return {shared.format, spec.stochastic, spec.block == 0 ? 64 : spec.block};
}

}  // namespace ronde::test
