// Which bytes of the segments belong to which rank, for the collectives that cut tensors into
// parts.
#pragma once

#include <cstddef>

#include "backends/shm/collectives/stream.h"
#include "core/ports/backend.h"

namespace ronde::shm {

/// What an address of a segment points to.
enum class Extent {
  kNone,   ///< Nothing: the address is ignored.
  kPart,   ///< This rank's part.
  kWhole,  ///< The whole tensor, part after part.
};

/// Fills scratch.parts: for each rank the pieces of its part, with the input and output addresses
/// that this rank (`me`) has for them, null where it has none. Starts scratch.cursors on them.
void split(const Work& work, int me, Extent in, Extent out, Scratch& scratch);

/// Bytes of the longest part, all segments together.
std::size_t longest_part(const Scratch& scratch) noexcept;

}  // namespace ronde::shm
