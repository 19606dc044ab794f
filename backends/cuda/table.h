// A launch's table: one kernel works on hundreds of runs of elements. Each run is cut into tiles;
// one block of threads works on one tile.
#pragma once

#include <cstddef>

#include "core/base/element.h"

#if defined(__CUDACC__)
#define RONDE_HOST_DEVICE __host__ __device__
#else
#define RONDE_HOST_DEVICE
#endif

namespace ronde::cuda {

using namespace element;  // NOLINT(google-build-using-namespace): of kernels' arguments

inline constexpr std::size_t kTileElements = 8192;   ///< Of a tile, unless a kernel says otherwise.
inline constexpr std::size_t kTileBytes = 64 << 10;  ///< Of a tile of a plain copy.

/// A kernel's parameter, passed by value: no memory must live until the device has read it. An
/// entry is a run of `count` elements, whose first tile has the number `first_tile`.
template <typename AnyTraits, typename Run, std::size_t kMost>
struct LaunchTable {
  using Traits = AnyTraits;
  struct Entry : Run {
    std::size_t first_tile;
  };
  static constexpr std::size_t kCapacity = kMost;
  Traits traits;  ///< The same for all entries.
  unsigned count;
  Entry entries[kCapacity];
};

constexpr std::size_t tiles_of(std::size_t count, std::size_t tile) noexcept {
  return (count + tile - 1) / tile;
}

/// The entry that tile number `tile` belongs to.
template <typename Entry>
RONDE_HOST_DEVICE inline unsigned find_entry(const Entry* entries, unsigned count,
                                             std::size_t tile) {
  unsigned low = 0;
  unsigned high = count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (entries[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Elements [begin, begin + count) of an entry: its tile number `index`. All tiles of an entry but
/// the last have `length` elements.
template <typename Entry>
struct TileOf {
  const Entry& entry;
  std::size_t index;
  std::size_t length;
  std::size_t begin;
  std::size_t count;
};
template <typename Table>
RONDE_HOST_DEVICE inline TileOf<typename Table::Entry> tile_of(const Table& table, std::size_t tile,
                                                               std::size_t length) {
  const auto& entry = table.entries[find_entry(table.entries, table.count, tile)];
  const std::size_t index = tile - entry.first_tile;
  const std::size_t begin = index * length;
  return {entry, index, length, begin, begin + length < entry.count ? length : entry.count - begin};
}

}  // namespace ronde::cuda
