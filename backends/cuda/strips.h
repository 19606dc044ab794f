// How one launch covers hundreds of strips: each is cut into tiles, a block of threads does one
// tile. Host and device run the same code, so that tests on the CPU cover all but the launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/block.h"
#include "backends/cuda/element.h"
#include "core/base/dtype.h"

namespace ronde::cuda {

inline constexpr std::size_t kTileElements = 8192;   ///< A transforming block's share.
inline constexpr std::size_t kTileBytes = 64 << 10;  ///< A copying block's share.
inline constexpr std::size_t kMaxStripsPerLaunch =
    1000;  ///< Kernel parameters end at 32,764 bytes.

/// One strip, and the number of the first tile of it.
struct Strip {
  const void* in;
  void* out;
  std::size_t count;
  std::size_t first_tile;
};

/// A launch's parameter. Passed by value: no memory must live until the device has read it.
template <std::size_t kCapacity>
struct StripTable {
  unsigned count;
  double scale;
  Strip strips[kCapacity];
};
using SmallTable = StripTable<64>;
using LargeTable = StripTable<kMaxStripsPerLaunch>;

constexpr std::size_t tiles_of(std::size_t count, std::size_t tile) noexcept {
  return (count + tile - 1) / tile;
}

/// The strip that tile number `tile` belongs to.
template <typename AnyStrip>
RONDE_HOST_DEVICE inline unsigned find_strip(const AnyStrip* strips, unsigned count,
                                             std::size_t tile) {
  unsigned low = 0;
  unsigned high = count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (strips[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Part of one strip: elements [begin, end).
struct Share {
  const Strip& strip;
  std::size_t begin;
  std::size_t end;
};

RONDE_HOST_DEVICE inline Share share_of(const Strip* strips, unsigned count, std::size_t tile,
                                        std::size_t tile_size) {
  const Strip& strip = strips[find_strip(strips, count, tile)];
  const std::size_t begin = (tile - strip.first_tile) * tile_size;
  const std::size_t end = begin + tile_size < strip.count ? begin + tile_size : strip.count;
  return {strip, begin, end};
}

/// What thread `thread` does of a transforming tile.
template <typename From, typename To, typename Table>
RONDE_HOST_DEVICE inline void transform_tile(const Table& table, std::size_t tile,
                                             unsigned thread) {
  const Share share = share_of(table.strips, table.count, tile, kTileElements);
  const auto* in = static_cast<const From*>(share.strip.in);
  auto* out = static_cast<To*>(share.strip.out);
  for (std::size_t i = share.begin + thread; i < share.end; i += kThreads) {
    out[i] = transformed<From, To>(in == nullptr ? From{} : in[i], table.scale);
  }
}

/// 16 bytes, moved by one instruction.
struct alignas(16) Line {
  std::uint64_t words[2];
};

template <typename Word>
RONDE_HOST_DEVICE inline bool aligned_to(const void* in, const void* out) {
  return (reinterpret_cast<std::uintptr_t>(in) | reinterpret_cast<std::uintptr_t>(out)) %
             sizeof(Word) ==
         0;
}

/// Copies [begin, end) of a byte strip as words, its rest as bytes. Tiles begin at whole words.
template <typename Word>
RONDE_HOST_DEVICE inline void copy_words(const Share& share, unsigned thread) {
  const auto* in = static_cast<const unsigned char*>(share.strip.in);
  auto* out = static_cast<unsigned char*>(share.strip.out);
  const std::size_t whole = share.begin + (share.end - share.begin) / sizeof(Word) * sizeof(Word);
  for (std::size_t i = share.begin + thread * sizeof(Word); i < whole;
       i += kThreads * sizeof(Word)) {
    *reinterpret_cast<Word*>(out + i) =
        in == nullptr ? Word{} : *reinterpret_cast<const Word*>(in + i);
  }
  for (std::size_t i = whole + thread; i < share.end; i += kThreads) {
    out[i] = in == nullptr ? static_cast<unsigned char>(0) : in[i];
  }
}

/// What thread `thread` does of a copying tile; counts are bytes.
template <typename Table>
RONDE_HOST_DEVICE inline void copy_tile(const Table& table, std::size_t tile, unsigned thread) {
  const Share share = share_of(table.strips, table.count, tile, kTileBytes);
  if (aligned_to<Line>(share.strip.in, share.strip.out)) {
    copy_words<Line>(share, thread);
  } else if (aligned_to<std::uint32_t>(share.strip.in, share.strip.out)) {
    copy_words<std::uint32_t>(share, thread);
  } else {
    copy_words<unsigned char>(share, thread);
  }
}

/// Calls `visit.template operator()<From, To>()` for a pair of types that kernels are built for:
/// each onto itself, and float32 and float64 from and to the 16-bit floating types. False for
/// others.
template <typename Visit>
bool visit_types(DType from, DType to, Visit visit) {
  const auto pair = [&]<typename From, typename To>(DType a, DType b) {
    if (from != a || to != b) return false;
    visit.template operator()<From, To>();
    return true;
  };
  using enum DType;
  return pair.template operator()<std::uint8_t, std::uint8_t>(kUint8, kUint8) ||
         pair.template operator()<std::int8_t, std::int8_t>(kInt8, kInt8) ||
         pair.template operator()<std::int16_t, std::int16_t>(kInt16, kInt16) ||
         pair.template operator()<std::int32_t, std::int32_t>(kInt32, kInt32) ||
         pair.template operator()<std::int64_t, std::int64_t>(kInt64, kInt64) ||
         pair.template operator()<Half, Half>(kFloat16, kFloat16) ||
         pair.template operator()<Brain, Brain>(kBfloat16, kBfloat16) ||
         pair.template operator()<E4m3, E4m3>(kFloat8E4m3, kFloat8E4m3) ||
         pair.template operator()<E5m2, E5m2>(kFloat8E5m2, kFloat8E5m2) ||
         pair.template operator()<float, float>(kFloat32, kFloat32) ||
         pair.template operator()<double, double>(kFloat64, kFloat64) ||
         pair.template operator()<Truth, Truth>(kBool, kBool) ||
         pair.template operator()<float, Half>(kFloat32, kFloat16) ||
         pair.template operator()<Half, float>(kFloat16, kFloat32) ||
         pair.template operator()<float, Brain>(kFloat32, kBfloat16) ||
         pair.template operator()<Brain, float>(kBfloat16, kFloat32) ||
         pair.template operator()<double, Half>(kFloat64, kFloat16) ||
         pair.template operator()<Half, double>(kFloat16, kFloat64) ||
         pair.template operator()<double, Brain>(kFloat64, kBfloat16) ||
         pair.template operator()<Brain, double>(kBfloat16, kFloat64);
}

}  // namespace ronde::cuda
