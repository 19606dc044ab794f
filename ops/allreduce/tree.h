// Allreduce up and down a binomial tree: for the smallest tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Binomial reduce to rank 0, then binomial broadcast; n ranks, S bytes.
/// At most 2 ceil(log2 n) steps; all ranks together send 2 (n-1) S bytes (3 (n-1) S for 16-bit
/// floating types, whose partials travel as fp32 and are rounded once). Order: neighbours first:
/// ((0 1) (2 3)) ((4 5) ...), at rank 0, and copied from there.
Status tree_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
