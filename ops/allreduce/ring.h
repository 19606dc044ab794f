// Allreduce around a ring: optimal in bytes, for large tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Reduce-scatter and allgather, both around the ring; n ranks, S bytes.
/// 2(n-1) steps (the first half for every two slices of at most 512 KiB of a part). Each rank sends
/// 2(n-1)/n S bytes; 3(n-1)/n S for 16-bit floating types, whose partials travel as fp32 and are
/// rounded once. Order: part r is combined from rank r+1 upwards, around to rank r, and copied from
/// there.
Status ring_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
