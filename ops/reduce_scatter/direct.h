// Reduce-scatter straight to each part's owner: one order of addition whatever the sizes.
#pragma once

#include <span>

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"
#include "ops/transfer.h"

namespace ronde {

/// Every rank's `out` receives its part of the reduction; n ranks, S bytes.
/// One step per slice (4 MiB of input from all ranks together) of n-1 messages. Each rank sends
/// S - (own part) bytes, 16-bit types as they are.
/// Order: ascending ranks, rounded once; the same bits however tensors are fused or cut.
Status direct_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch);

/// As direct_reduce_scatter, part r of `work.in` being the elements parts[r]; `work.chunk_bytes` is
/// not looked at. `work.out` may be this rank's own part of `work.in`.
Status direct_reduce_parts(Transport& transport, const FlatWork& work, std::span<const Part> parts,
                           Scratch& scratch);

}  // namespace ronde
