// Compression on the device, the same code on the host for its tests: the frames, bit for bit, of
// ops/compression's fp16, bf16, int8 and int4 (half.h, int8.h, int4.h there give the formats).
// Encoding adds what is left over of earlier steps first and leaves what it loses in its place, in
// one pass over memory: error feedback costs no kernel of its own. A block of threads encodes one
// block of values.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/element.h"
#include "backends/cuda/strips.h"

namespace ronde::cuda {

/// Formats that round each value by itself or within its block.
enum class FrameFormat : std::uint8_t { kFp16, kBf16, kInt8, kInt4, kOnebit };

/// Values on their way into a frame.
struct EncodeWork {
  FrameFormat format = FrameFormat::kFp16;
  const float* values = nullptr;
  float* residual = nullptr;  ///< Added to the values, and then what is lost of them; may be null.
  std::uint8_t* frame = nullptr;
  std::size_t count = 0;
  std::size_t block = 0;     ///< Elements that share a scale, a multiple of 64.
  bool stochastic = false;   ///< int8 and int4: rounding; else to nearest even.
  std::uint32_t key = 0;     ///< Of the random bits: compression::fold_key() of EncodeCall::key.
  std::uint64_t offset = 0;  ///< Of the first value in its tensor.
};

/// A frame on its way back.
struct DecodeWork {
  FrameFormat format = FrameFormat::kFp16;
  const std::uint8_t* frame = nullptr;
  float* out = nullptr;
  std::size_t count = 0;
  std::size_t block = 0;
  bool add = false;  ///< To what is in `out`.
};

/// Products and differences that are rounded one by one, as on the CPU: no fused multiply-add.
RONDE_HOST_DEVICE inline float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
RONDE_HOST_DEVICE inline float sum(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

RONDE_HOST_DEVICE constexpr bool is_half(FrameFormat format) {
  return format == FrameFormat::kFp16 || format == FrameFormat::kBf16;
}
RONDE_HOST_DEVICE constexpr float steps_of(FrameFormat format) {
  return format == FrameFormat::kInt8 ? 127.0F : 7.0F;
}
/// Bytes of a block of `count` values.
RONDE_HOST_DEVICE constexpr std::size_t block_bytes(FrameFormat format, std::size_t count) {
  if (is_half(format)) return 2 * count;
  if (format == FrameFormat::kOnebit) return 2 * sizeof(float) + (count + 7) / 8;
  return sizeof(float) + (format == FrameFormat::kInt8 ? count : (count + 1) / 2);
}

/// Block number `index` of a frame.
template <typename Work>
struct BlockOf {
  RONDE_HOST_DEVICE BlockOf(const Work& work, std::size_t index)
      : begin(index * work.block),
        count(begin + work.block < work.count ? work.block : work.count - begin),
        frame(work.frame + index * block_bytes(work.format, work.block)) {}
  std::size_t begin;
  std::size_t count;
  decltype(Work::frame) frame;
};

/// A value with what is left over of it.
RONDE_HOST_DEVICE inline float value_at(const EncodeWork& work, std::size_t i) {
  return work.residual == nullptr ? work.values[i] : sum(work.values[i], work.residual[i]);
}

/// Writes one value as 16 bits, and gives what those stand for.
RONDE_HOST_DEVICE inline float encode_half(FrameFormat format, float value, std::uint8_t* to) {
  std::uint16_t bits = 0;
  float kept = 0;
  if (format == FrameFormat::kBf16) {
    bits = float_to_bfloat16(value);
    kept = bfloat16_to_float(bits);
  } else {
    constexpr float kMost = 65504.0F;
    const auto magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
    const bool finite = magnitude < 0x7f800000U;
    if (finite && value > kMost) value = kMost;
    if (finite && value < -kMost) value = -kMost;
    bits = float_to_float16(value);
    kept = float16_to_float(bits);
  }
  *reinterpret_cast<std::uint16_t*>(to) = bits;
  return kept;
}

/// The largest magnitude among a thread's values of a block, as bits, which compare as it does: NaN
/// is above infinity.
RONDE_HOST_DEVICE inline std::uint32_t largest_of(const EncodeWork& work, std::size_t index,
                                                  unsigned thread) {
  const BlockOf block(work, index);
  std::uint32_t largest = 0;
  for (std::size_t i = thread; i < block.count; i += kThreads) {
    const float value = value_at(work, block.begin + i);
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
    if (bits > largest) largest = bits;
  }
  return largest;
}

/// The scale of a block by the bits of its largest magnitude: 0 where that is too small to divide
/// by, NaN where a value is not finite.
RONDE_HOST_DEVICE inline float scale_of(std::uint32_t largest, float steps) {
  if (largest >= 0x7f800000U) return std::bit_cast<float>(0x7fc00000U);
  const float scale = std::bit_cast<float>(largest) / steps;
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  if (std::bit_cast<std::uint32_t>(product(scale, steps)) >= 0x7f800000U) {
    return std::bit_cast<float>(bits - 1);  // the next below: the largest value stays finite
  }
  return bits < 0x00800000U ? 0.0F : scale;
}

/// Uniform in [0, 1), one number for each element: Wellons' lowbias32 of position and key.
RONDE_HOST_DEVICE inline float random_at(std::uint32_t position, std::uint32_t key) {
  std::uint32_t x = position * 0x9e3779b9U + key;
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  x ^= x >> 16;
  return product(static_cast<float>(x >> 8), 0x1p-24F);
}

/// The code of one value, which is a whole multiple of `scale`; what is lost joins the residual.
RONDE_HOST_DEVICE inline std::int32_t quantise(const EncodeWork& work, std::size_t i, float scale) {
  const float value = value_at(work, i);
  float whole = 0;
  if (scale > 0.0F) {
    const float multiple = value / scale;
    if (work.stochastic) {
      const float most = steps_of(work.format);
      const auto position = static_cast<std::uint32_t>(work.offset + i);
      whole = floorf(sum(multiple, random_at(position, work.key)));
      whole = whole > most ? most : whole;
      whole = whole < -most ? -most : whole;
    } else {
      whole = rintf(multiple);
    }
  }
  if (work.residual != nullptr) {
    work.residual[i] = scale > 0.0F ? sum(value, -product(whole, scale)) : value;
  }
  return static_cast<std::int32_t>(whole);
}

/// What a thread does of a block of 16-bit values.
RONDE_HOST_DEVICE inline void encode_halves(const EncodeWork& work, std::size_t index,
                                            unsigned thread) {
  const BlockOf block(work, index);
  for (std::size_t i = thread; i < block.count; i += kThreads) {
    const float value = value_at(work, block.begin + i);
    const float kept = encode_half(work.format, value, block.frame + 2 * i);
    if (work.residual != nullptr) work.residual[block.begin + i] = sum(value, -kept);
  }
}

/// What a thread does of a block of int8 or int4 whose largest magnitude is known: pairs of
/// elements, as int4 puts two of them into a byte.
RONDE_HOST_DEVICE inline void encode_multiples(const EncodeWork& work, std::size_t index,
                                               unsigned thread, std::uint32_t largest) {
  const BlockOf block(work, index);
  const float scale = scale_of(largest, steps_of(work.format));
  if (thread < sizeof scale) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    block.frame[thread] = static_cast<std::uint8_t>(bits >> (8 * thread));
  }
  std::uint8_t* const codes = block.frame + sizeof scale;
  for (std::size_t i = 2 * std::size_t{thread}; i < block.count; i += 2 * std::size_t{kThreads}) {
    const bool pair = i + 1 < block.count;
    const std::int32_t first = quantise(work, block.begin + i, scale);
    const std::int32_t second = pair ? quantise(work, block.begin + i + 1, scale) : 0;
    if (work.format == FrameFormat::kInt4) {
      codes[i / 2] = static_cast<std::uint8_t>((first + 8) | (second + 8) << 4);
    } else {
      codes[i] = static_cast<std::uint8_t>(first);
      if (pair) codes[i + 1] = static_cast<std::uint8_t>(second);
    }
  }
}

/// The value of element `i` of a block.
RONDE_HOST_DEVICE inline float decoded(FrameFormat format, const std::uint8_t* frame,
                                       std::size_t i) {
  if (is_half(format)) {
    const auto bits = *reinterpret_cast<const std::uint16_t*>(frame + 2 * i);
    return format == FrameFormat::kFp16 ? float16_to_float(bits) : bfloat16_to_float(bits);
  }
  std::uint32_t scale = 0;
  for (unsigned byte = 0; byte < sizeof scale; ++byte) {
    scale |= static_cast<std::uint32_t>(frame[byte]) << (8 * byte);
  }
  const std::uint8_t* const codes = frame + sizeof scale;
  const std::int32_t code = format == FrameFormat::kInt8
                                ? static_cast<std::int8_t>(codes[i])
                                : ((codes[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15) - 8;
  return product(static_cast<float>(code), std::bit_cast<float>(scale));
}

/// What a thread does of a block on its way back.
RONDE_HOST_DEVICE inline void decode_block(const DecodeWork& work, std::size_t index,
                                           unsigned thread) {
  const BlockOf block(work, index);
  for (std::size_t i = thread; i < block.count; i += kThreads) {
    const float value = decoded(work.format, block.frame, i);
    float& out = work.out[block.begin + i];
    out = work.add ? sum(out, value) : value;
  }
}

}  // namespace ronde::cuda
