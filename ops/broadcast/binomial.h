// Broadcast along a binomial tree: few steps, for small tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// The root's `in` in every other rank's `out`; n ranks, S bytes. The root's `out` is not touched.
/// ceil(log2 n) steps; the root sends S ceil(log2 n) bytes, all ranks together S (n-1).
Status binomial_broadcast(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
