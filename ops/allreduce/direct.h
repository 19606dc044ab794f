// Allreduce straight to and from each part's owner: one order of addition whatever the sizes.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Direct reduce-scatter, then allgather around the ring; n ranks, S bytes.
/// n steps (the first per slice of 4 MiB of input from all ranks together). Each rank sends
/// 2(n-1)/n S bytes, for 16-bit types too.
/// Order: ascending ranks, rounded once, at the part's owner, and copied from there: the same bits
/// however tensors are fused or cut. What deterministic mode uses.
Status direct_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
