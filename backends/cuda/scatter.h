// Writes or adds the elements of sparse lists to dense vectors. One launch takes hundreds of lists.
#pragma once

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

/// A list for one vector; see ScatterRun in core/ports/device_codecs.h.
struct ScatterEntry {
  const std::uint32_t* indices;
  const float* values;
  void* out;
  std::uint32_t* flag;
  std::size_t count;
  std::size_t first_tile;
};
struct ScatterTraits {
  bool adds;
};
using SmallScatterTable = LaunchTable<ScatterTraits, ScatterEntry, 32>;
using LargeScatterTable = LaunchTable<ScatterTraits, ScatterEntry, 600>;

inline constexpr std::size_t kScatterTile = 2048;  ///< Elements.

/// The work of thread `thread` on a tile.
template <typename To, typename Table>
RONDE_HOST_DEVICE inline void scatter_tile(const Table& table, std::size_t tile, unsigned thread) {
  const auto part = tile_of(table, tile, kScatterTile);
  bool finite = true;
  for (std::size_t i = part.begin + thread; i < part.begin + part.count; i += kThreads) {
    To& place = static_cast<To*>(part.entry.out)[part.entry.indices[i]];
    const float value = part.entry.values[i];
    place =
        Store<To>::from(table.traits.adds ? sum(static_cast<float>(load(place)), value) : value);
    finite = finite && is_finite(load(place));
  }
  if (!finite && part.entry.flag != nullptr) *part.entry.flag = 1;
}

}  // namespace ronde::cuda
