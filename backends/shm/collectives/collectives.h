// The collectives of the shared-memory data plane, one function per kind of work. Every function
// reads the segments in place. n is the number of ranks, S the bytes of the whole tensor.
#pragma once

#include <cstddef>

#include "backends/shm/collectives/stream.h"
#include "core/base/status.h"
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

/// Allreduce and reduce. Every element is reduced by one call over the ranks in ascending order, so
/// all ranks hold the same bits on either path:
/// - one-shot (small): all stage S, all reduce S; one synchronisation per slot of data;
/// - two-shot: each rank stages the others' slices, reduces its own, copies the others' results;
///   one synchronisation per round of n slices, and the last.
/// Errors: the abort's status.
Status reduce_onto(const Context& with, const Work& work);

/// Each rank stages the others' chunks and reduces its own. Errors: the abort's status.
Status reduce_scatter(const Context& with, const Work& work);

/// The root stages, the others copy out. Errors: the abort's status.
Status broadcast(const Context& with, const Work& work);

/// Allgather and gather: each rank stages its chunk. Errors: the abort's status.
Status gather_chunks(const Context& with, const Work& work);

/// The root stages all chunks but its own. Errors: the abort's status.
Status scatter(const Context& with, const Work& work);

/// Each rank stages a slice for every other. Errors: the abort's status.
Status alltoall(const Context& with, const Work& work);

/// One step. Errors: the abort's status.
Status barrier(const Context& with, const Work& work);

}  // namespace ronde::shm
