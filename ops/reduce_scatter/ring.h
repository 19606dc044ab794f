// Reduce-scatter around a ring: optimal in bytes, for large tensors.
#pragma once

#include <span>

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"
#include "ops/transfer.h"

namespace ronde {

/// Every rank's `out` receives its part of the reduction; n ranks, S bytes.
/// n-1 steps for every two slices of at most 512 KiB of a part, which overlap. Each rank sends and
/// receives S - (own part) bytes; twice that for 16-bit floating types, whose partials travel as
/// fp32. Order: part r is combined from rank r+1 upwards, around to rank r.
Status ring_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch);

/// As ring_reduce_scatter, part r of `work.in` being the elements parts[r]; `work.chunk_bytes` is
/// not looked at. `work.out` may be this rank's own part of `work.in`.
Status ring_reduce_parts(Transport& transport, const FlatWork& work, std::span<const Part> parts,
                         Scratch& scratch);

}  // namespace ronde
