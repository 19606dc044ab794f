// Gather straight to the root.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Every rank's part, in rank order, in the root's `out`; n ranks, S bytes in all.
/// One step at every rank; n-1 messages arrive at the root, S - (its own part) bytes.
Status linear_gather(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
