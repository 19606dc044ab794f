// Batched copies: one launch copies, casts and scales hundreds of runs of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

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

/// The product with a factor. Integers: in double. bool: the factor is ignored.
template <typename T>
RONDE_HOST_DEVICE inline auto scaled(T element, double factor) {
  const auto value = load(element);
  if constexpr (std::is_same_v<T, Truth>) {
    return value;
  } else if constexpr (std::is_floating_point_v<decltype(value)>) {
    using Float = std::remove_const_t<decltype(value)>;
    return static_cast<Float>(value * static_cast<Float>(factor));
  } else {
    return static_cast<double>(value) * factor;
  }
}

/// One element of a batched copy.
template <typename From, typename To>
RONDE_HOST_DEVICE inline To transformed(From element, double factor) {
  return factor == 1.0 ? store<To>(load(element)) : store<To>(scaled(element, factor));
}

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

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;

/// Calls `visit.template operator()<From, To>()` for a pair of types that has a kernel. These are
/// each type to itself, and float32 and float64 from and to the 16-bit floating types. False for
/// others.
template <typename Visit>
bool visit_types(DType from, DType to, const Visit& visit) {
  bool known = false;
  with_type(from, [&]<typename From>() {
    with_type(to, [&]<typename To>() {
      constexpr bool kNarrows = std::is_floating_point_v<From> && kIsHalf<To>;
      constexpr bool kWidens = kIsHalf<From> && std::is_floating_point_v<To>;
      if constexpr (std::is_same_v<From, To> || kNarrows || kWidens) {
        visit.template operator()<From, To>();
        known = true;
      }
    });
  });
  return known;
}

}  // namespace ronde::cuda
