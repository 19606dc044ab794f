// Chosen elements on their way to their places in a vector, the same code on the host for its
// tests. One launch takes hundreds of runs, as codecs.h does.
#pragma once

#include "backends/cuda/codecs.h"

namespace ronde::cuda {

/// Elements of one vector, and the number of their first tile; see core/ports/device_codecs.h.
struct ScatterStrip {
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
using SmallScatterTable = CodecTable<ScatterTraits, ScatterStrip, 32>;
using LargeScatterTable = CodecTable<ScatterTraits, ScatterStrip, 600>;
static_assert(sizeof(LargeScatterTable) <= 32764);

inline constexpr std::size_t kScatterTile = 2048;  ///< Elements.

/// What a thread does of a tile.
template <typename To, typename Table>
RONDE_HOST_DEVICE inline void scatter_tile(const Table& table, std::size_t tile, unsigned thread) {
  const auto part = tile_of(table, tile, kScatterTile);
  bool finite = true;
  for (std::size_t i = part.begin + thread; i < part.begin + part.count; i += kThreads) {
    To& place = static_cast<To*>(part.strip.out)[part.strip.indices[i]];
    const float value = part.strip.values[i];
    place =
        Store<To>::from(table.traits.adds ? sum(static_cast<float>(load(place)), value) : value);
    finite = finite && is_finite(load(place));
  }
  if (!finite && part.strip.flag != nullptr) *part.strip.flag = 1;
}

}  // namespace ronde::cuda
