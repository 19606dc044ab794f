// Bruck's allgather: few steps, for small tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Every rank's part, in rank order, in every rank's `out`; n ranks, S bytes in all.
/// ceil(log2 n) steps; each rank sends S - (one part) bytes; one more copy of S in memory.
/// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all
/// communications in multiport message-passing systems", 1997.
Status bruck_allgather(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
