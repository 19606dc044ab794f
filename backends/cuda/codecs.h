// Compression on the device: fp16, bf16, int8 and int4. Frames have the bits of ops/compression's
// (half.cc and integer.cc there define the formats; sign.h here encodes onebit). Encoding adds the
// residual and writes the new one in the same pass, so error feedback needs no kernel of its own.
// One launch takes hundreds of runs. A block of threads encodes one block of values.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/block.h"
#include "backends/cuda/table.h"
#include "core/base/dtype.h"
#include "core/ports/device_codecs.h"

namespace ronde::cuda {

struct EncodeTraits {
  FrameCode code;
  float factor;
  unsigned added_frames;
  std::size_t added_stride;
};
struct DecodeTraits {
  FrameCode code;
};
struct ScatterTraits {
  bool adds;
};
struct NoTraits {};

using SmallEncodeTable = LaunchTable<EncodeTraits, EncodeRun, 32>;
using LargeEncodeTable = LaunchTable<EncodeTraits, EncodeRun, 450>;
using SmallDecodeTable = LaunchTable<DecodeTraits, DecodeRun, 32>;
using LargeDecodeTable = LaunchTable<DecodeTraits, DecodeRun, 800>;
using SmallCommitTable = LaunchTable<NoTraits, CommitRun, 32>;
using LargeCommitTable = LaunchTable<NoTraits, CommitRun, 800>;
using SmallScatterTable = LaunchTable<ScatterTraits, ScatterRun, 32>;
using LargeScatterTable = LaunchTable<ScatterTraits, ScatterRun, 600>;

/// Products and sums are rounded one by one, as on the CPU: no fused multiply-add.
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

/// A block of threads encodes kSignGroups blocks of onebit, kSignLanes threads each of them.
inline constexpr unsigned kSignLanes = 16;
inline constexpr unsigned kSignGroups = kThreads / kSignLanes;

/// Elements of a tile to encode, and of a tile to decode: whole blocks.
RONDE_HOST_DEVICE constexpr std::size_t encoded_tile(const FrameCode& code) {
  if (is_half(code.format)) return kTileElements;
  if (code.format != FrameFormat::kOnebit) return code.block;
  constexpr std::size_t kMost = 4096;  // elements in a block's shared memory
  const std::size_t blocks = kMost / code.block;
  return (blocks < kSignGroups ? blocks : kSignGroups) * code.block;
}
RONDE_HOST_DEVICE constexpr std::size_t decoded_tile(const FrameCode& code) {
  if (is_half(code.format)) return kTileElements;
  constexpr std::size_t kWanted = 4096;
  return code.block < kWanted ? kWanted / code.block * code.block : code.block;
}

/// An element's place in a frame: element `in_block` of the block whose bytes begin at `at`. A
/// frame of 16-bit values is one block.
struct Place {
  std::size_t at;
  std::size_t in_block;
};

RONDE_HOST_DEVICE inline const std::uint8_t* bytes_of(const std::byte* frame) {
  return reinterpret_cast<const std::uint8_t*>(frame);
}
RONDE_HOST_DEVICE inline std::uint8_t* bytes_of(std::byte* frame) {
  return reinterpret_cast<std::uint8_t*>(frame);
}

/// The bits of a number in a frame, which need not be aligned.
RONDE_HOST_DEVICE inline std::uint32_t bits_at(const std::uint8_t* frame) {
  std::uint32_t bits = 0;
  for (unsigned byte = 0; byte < sizeof bits; ++byte) {
    bits |= static_cast<std::uint32_t>(frame[byte]) << (8 * byte);
  }
  return bits;
}

/// The value of element `i` of a block.
RONDE_HOST_DEVICE inline float decoded(FrameFormat format, const std::uint8_t* frame,
                                       std::size_t i) {
  if (is_half(format)) {
    const auto bits = *reinterpret_cast<const std::uint16_t*>(frame + 2 * i);
    return format == FrameFormat::kFp16 ? float16_to_float(bits) : bfloat16_to_float(bits);
  }
  if (format == FrameFormat::kOnebit) {
    const bool sign = (frame[2 * sizeof(float) + i / 8] >> i % 8 & 1) != 0;
    return std::bit_cast<float>(bits_at(frame + (sign ? 0 : sizeof(float))));
  }
  const std::uint32_t scale = bits_at(frame);
  const std::uint8_t* const codes = frame + sizeof scale;
  const std::int32_t code = format == FrameFormat::kInt8
                                ? static_cast<std::int8_t>(codes[i])
                                : ((codes[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15) - 8;
  return product(static_cast<float>(code), std::bit_cast<float>(scale));
}

/// factor * value + residual + the values of the added frames, for element `i` of an entry.
/// `place`: the element's in each added frame.
template <typename From>
RONDE_HOST_DEVICE inline float value_at(const EncodeTraits& traits, const EncodeRun& entry,
                                        std::size_t i, Place place) {
  float value = 0.0F;
  if (entry.values != nullptr) {
    const auto given = static_cast<float>(load(static_cast<const From*>(entry.values)[i]));
    value = product(given, traits.factor);
  }
  if (entry.residual != nullptr) value = sum(value, entry.residual[i]);
  for (unsigned n = 0; n < traits.added_frames; ++n) {
    const std::byte* const frame = entry.added + n * traits.added_stride + place.at;
    value = sum(value, decoded(traits.code.format, bytes_of(frame), place.in_block));
  }
  return value;
}

/// Writes one value as 16 bits. Returns the value of these bits.
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

/// The work of thread `thread` on a tile of 16-bit values.
template <typename From, typename Table>
RONDE_HOST_DEVICE inline void encode_halves(const Table& table, std::size_t tile, unsigned thread) {
  const FrameFormat format = table.traits.code.format;
  const auto part = tile_of(table, tile, kTileElements);
  for (std::size_t i = part.begin + thread; i < part.begin + part.count; i += kThreads) {
    const float value = value_at<From>(table.traits, part.entry, i, {0, i});
    const float kept = encode_half(format, value, bytes_of(part.entry.frame) + 2 * i);
    if (part.entry.lost != nullptr) part.entry.lost[i] = sum(value, -kept);
  }
}

/// First phase of a block of int8 or int4: writes the values to encode to `values`, which all
/// threads share. Returns the bits of the thread's largest magnitude. Bits compare as magnitudes
/// do, and NaN is above infinity.
template <typename From, typename Table>
RONDE_HOST_DEVICE inline std::uint32_t gather_block(const Table& table, std::size_t tile,
                                                    unsigned thread, float* values) {
  const auto part = tile_of(table, tile, table.traits.code.block);
  const std::size_t at = part.index * block_bytes(table.traits.code.format, part.length);
  std::uint32_t largest = 0;
  for (std::size_t i = thread; i < part.count; i += kThreads) {
    values[i] = value_at<From>(table.traits, part.entry, part.begin + i, {at, i});
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU;
    if (bits > largest) largest = bits;
  }
  return largest;
}

/// The scale of a block with this largest magnitude. 0: it is too small to divide by. NaN: a value
/// is not finite.
RONDE_HOST_DEVICE inline float scale_of(std::uint32_t largest, float steps) {
  if (largest >= 0x7f800000U) return std::bit_cast<float>(0x7fc00000U);
  const float scale = std::bit_cast<float>(largest) / steps;
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  if (std::bit_cast<std::uint32_t>(product(scale, steps)) >= 0x7f800000U) {
    return std::bit_cast<float>(bits - 1);  // the largest value must decode as finite
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

/// The code of element `i` of an entry: a whole multiple of `scale`. The rest becomes the residual.
RONDE_HOST_DEVICE inline std::int32_t quantise(const FrameCode& code, const EncodeRun& entry,
                                               std::size_t i, float value, float scale) {
  float whole = 0;
  if (scale > 0.0F) {
    const float multiple = value / scale;
    if (code.stochastic) {
      const float most = steps_of(code.format);
      const auto position = static_cast<std::uint32_t>(entry.offset + i);
      whole = floorf(sum(multiple, random_at(position, entry.key)));
      whole = whole > most ? most : whole;
      whole = whole < -most ? -most : whole;
    } else {
      whole = rintf(multiple);
    }
  }
  if (entry.lost != nullptr) {
    entry.lost[i] = scale > 0.0F ? sum(value, -product(whole, scale)) : value;
  }
  return static_cast<std::int32_t>(whole);
}

/// Second phase of a block of int8 or int4, whose largest magnitude is known. A thread takes pairs
/// of elements, as int4 puts two of them into a byte.
template <typename Table>
RONDE_HOST_DEVICE inline void quantise_block(const Table& table, std::size_t tile, unsigned thread,
                                             const float* values, std::uint32_t largest) {
  const FrameCode& code = table.traits.code;
  const auto part = tile_of(table, tile, code.block);
  std::uint8_t* const frame =
      bytes_of(part.entry.frame) + part.index * block_bytes(code.format, code.block);
  const float scale = scale_of(largest, steps_of(code.format));
  if (thread < sizeof scale) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    frame[thread] = static_cast<std::uint8_t>(bits >> (8 * thread));
  }
  std::uint8_t* const codes = frame + sizeof scale;
  for (std::size_t i = 2 * std::size_t{thread}; i < part.count; i += 2 * std::size_t{kThreads}) {
    const bool pair = i + 1 < part.count;
    const std::size_t at = part.begin + i;
    const std::int32_t first = quantise(code, part.entry, at, values[i], scale);
    const std::int32_t second = pair ? quantise(code, part.entry, at + 1, values[i + 1], scale) : 0;
    if (code.format == FrameFormat::kInt4) {
      codes[i / 2] = static_cast<std::uint8_t>((first + 8) | (second + 8) << 4);
    } else {
      codes[i] = static_cast<std::uint8_t>(first);
      if (pair) codes[i + 1] = static_cast<std::uint8_t>(second);
    }
  }
}

/// True for numbers, false for NaN and infinity.
RONDE_HOST_DEVICE inline bool is_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) != 0x7f800000U;
}
RONDE_HOST_DEVICE inline bool is_finite(double value) {
  constexpr std::uint64_t kInfinity = 0x7ff0000000000000U;
  return (std::bit_cast<std::uint64_t>(value) & kInfinity) != kInfinity;
}

/// The place of element `i` of a tile in the frame. Tiles begin with a block.
template <typename Entry>
RONDE_HOST_DEVICE inline Place place_of(const FrameCode& code, const TileOf<Entry>& part,
                                        std::size_t i) {
  if (is_half(code.format)) return {0, part.begin + i};
  const auto block = static_cast<std::uint32_t>(code.block);
  const auto in_tile = static_cast<std::uint32_t>(i);
  const std::size_t before = part.index * (part.length / block) + in_tile / block;
  return {before * block_bytes(code.format, code.block), in_tile % block};
}

/// The work of thread `thread` on a tile to decode.
template <typename To, typename Table>
RONDE_HOST_DEVICE inline void decode_tile(const Table& table, std::size_t tile, unsigned thread) {
  const FrameCode& code = table.traits.code;
  const auto part = tile_of(table, tile, decoded_tile(code));
  auto* const out = static_cast<To*>(part.entry.out);
  bool finite = true;
  for (std::size_t i = thread; i < part.count; i += kThreads) {
    const Place place = place_of(code, part, i);
    const float value = decoded(code.format, bytes_of(part.entry.frame) + place.at, place.in_block);
    const To element = store<To>(value);
    finite = finite && is_finite(load(element));
    if (out != nullptr) out[part.begin + i] = element;
  }
  if (!finite && part.entry.flag != nullptr) *part.entry.flag = 1;
}

/// The work of thread `thread` on a tile of a conditional copy.
template <typename Table>
RONDE_HOST_DEVICE inline void commit_tile(const Table& table, std::size_t tile, unsigned thread) {
  const auto part = tile_of(table, tile, kTileElements);
  if (*part.entry.flag != 0) return;
  for (std::size_t i = part.begin + thread; i < part.begin + part.count; i += kThreads) {
    part.entry.to[i] = part.entry.from[i];
  }
}

inline constexpr std::size_t kScatterTile = 2048;  ///< Elements.

/// The work of thread `thread` on a tile of a list that goes to its places in a vector.
template <typename To, typename Table>
RONDE_HOST_DEVICE inline void scatter_tile(const Table& table, std::size_t tile, unsigned thread) {
  const auto part = tile_of(table, tile, kScatterTile);
  bool finite = true;
  for (std::size_t i = part.begin + thread; i < part.begin + part.count; i += kThreads) {
    To& place = static_cast<To*>(part.entry.out)[part.entry.indices[i]];
    const float value = part.entry.values[i];
    place = store<To>(table.traits.adds ? sum(static_cast<float>(load(place)), value) : value);
    finite = finite && is_finite(load(place));
  }
  if (!finite && part.entry.flag != nullptr) *part.entry.flag = 1;
}

/// Calls `visit.template operator()<Element>()` for a floating type; false for others.
template <typename Visit>
bool visit_floating(DType dtype, Visit visit) {
  const auto one = [&]<typename Element>(DType known) {
    if (dtype != known) return false;
    visit.template operator()<Element>();
    return true;
  };
  return one.template operator()<float>(DType::kFloat32) ||
         one.template operator()<Half>(DType::kFloat16) ||
         one.template operator()<Brain>(DType::kBfloat16) ||
         one.template operator()<double>(DType::kFloat64);
}

}  // namespace ronde::cuda
