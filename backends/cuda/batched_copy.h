// Batched copies: one launch copies, casts and scales hundreds of runs of elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/block.h"
#include "backends/cuda/table.h"
#include "core/base/dtype.h"
#include "core/ports/device_ops.h"

namespace ronde::cuda {

struct CopyTraits {
  double scale;
};
using SmallCopyTable = LaunchTable<CopyTraits, DeviceCopy, 64>;
using LargeCopyTable = LaunchTable<CopyTraits, DeviceCopy, 1000>;

/// The work of thread `thread` on a tile: casts and scales elements.
template <typename From, typename To, typename Table>
RONDE_HOST_DEVICE inline void transform_tile(const Table& table, std::size_t tile,
                                             unsigned thread) {
  const auto part = tile_of(table, tile, kTileElements);
  const auto* in = static_cast<const From*>(part.entry.in);
  auto* out = static_cast<To*>(part.entry.out);
  for (std::size_t i = part.begin + thread; i < part.begin + part.count; i += kThreads) {
    out[i] = transformed<From, To>(in == nullptr ? From{} : in[i], table.traits.scale);
  }
}

/// 16 bytes: one instruction moves them.
struct alignas(16) Line {
  std::uint64_t words[2];
};

template <typename Word>
RONDE_HOST_DEVICE inline bool aligned_to(const void* in, const void* out) {
  return (reinterpret_cast<std::uintptr_t>(in) | reinterpret_cast<std::uintptr_t>(out)) %
             sizeof(Word) ==
         0;
}

/// Copies a tile of bytes as words, and its rest as bytes. Tiles begin at whole words.
template <typename Word, typename Entry>
RONDE_HOST_DEVICE inline void copy_words(const TileOf<Entry>& part, unsigned thread) {
  const auto* in = static_cast<const unsigned char*>(part.entry.in);
  auto* out = static_cast<unsigned char*>(part.entry.out);
  const std::size_t end = part.begin + part.count;
  const std::size_t whole = part.begin + part.count / sizeof(Word) * sizeof(Word);
  for (std::size_t i = part.begin + thread * sizeof(Word); i < whole;
       i += kThreads * sizeof(Word)) {
    *reinterpret_cast<Word*>(out + i) =
        in == nullptr ? Word{} : *reinterpret_cast<const Word*>(in + i);
  }
  for (std::size_t i = whole + thread; i < end; i += kThreads) {
    out[i] = in == nullptr ? static_cast<unsigned char>(0) : in[i];
  }
}

/// The work of thread `thread` on a tile of a plain copy; counts are bytes.
template <typename Table>
RONDE_HOST_DEVICE inline void copy_tile(const Table& table, std::size_t tile, unsigned thread) {
  const auto part = tile_of(table, tile, kTileBytes);
  if (aligned_to<Line>(part.entry.in, part.entry.out)) {
    copy_words<Line>(part, thread);
  } else if (aligned_to<std::uint32_t>(part.entry.in, part.entry.out)) {
    copy_words<std::uint32_t>(part, thread);
  } else {
    copy_words<unsigned char>(part, thread);
  }
}

/// Calls `visit.template operator()<From, To>()` for a pair of types that has a kernel. These are
/// each type to itself, and float32 and float64 from and to the 16-bit floating types. False for
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
         pair.template operator()<std::uint16_t, std::uint16_t>(kUint16, kUint16) ||
         pair.template operator()<std::uint32_t, std::uint32_t>(kUint32, kUint32) ||
         pair.template operator()<std::uint64_t, std::uint64_t>(kUint64, kUint64) ||
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
