// Bruck's all-to-all: few steps, for small blocks among many ranks.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Block r of `in` goes to rank r; `out` holds the blocks received, by sender. n ranks.
/// ceil(log2 n) rounds of two steps, lengths and then blocks. A block to the rank d above travels
/// once for each bit that is set in d, so that each rank sends about half of its blocks' bytes and
/// n/2 lengths of 8 bytes in every round. In place needs nothing more.
/// Source: as ops/allgather/bruck.h.
Status bruck_alltoall(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
