// Scatter straight from the root.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Part r of the root's `in` in rank r's `out`; n ranks, S bytes in all.
/// One step at every rank; the root sends n-1 messages, S - (its own part) bytes.
Status linear_scatter(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
