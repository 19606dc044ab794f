// The chunk of each rank in the segments, for the collectives that cut tensors into chunks.
#pragma once

#include <cstddef>

#include "backends/shm/collectives/stream.h"
#include "core/ports/backend.h"

namespace ronde::shm {

/// The memory behind an address of a segment.
enum class Extent {
  kNone,   ///< Nothing: the address is ignored.
  kChunk,  ///< This rank's chunk.
  kWhole,  ///< The whole tensor, chunk after chunk.
};

/// Fills scratch.chunks: for each rank the pieces of its chunk. The addresses are those of this
/// rank (`me`), null if it has none. Starts scratch.cursors on them.
void split(const Work& work, int me, Extent in, Extent out, Scratch& scratch);

/// Bytes of the longest chunk, all segments together.
std::size_t longest_chunk(const Scratch& scratch) noexcept;

}  // namespace ronde::shm
