// The formats of compressed values that devices have kernels for; ops/compression gives their
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ronde {

/// Formats that round each value by itself or within its block.
enum class FrameFormat : std::uint8_t { kFp16, kBf16, kInt8, kInt4, kOnebit };

/// How values become a frame.
struct FrameCode {
  FrameFormat format = FrameFormat::kFp16;
  bool stochastic = false;  ///< int8 and int4: rounding; else to nearest even.
  std::size_t block = 0;    ///< Elements that share a scale or means, a multiple of 64.
};

}  // namespace ronde
