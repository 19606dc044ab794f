// Allgather around a ring: optimal in bytes, for large tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Every rank's part, in rank order, in every rank's `out`; n ranks, S bytes in all.
/// n-1 steps; each rank sends S - (its right neighbour's part) bytes, straight from and to `out`.
/// This rank's part is copied from `in` unless it is in its place already.
Status ring_allgather(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
