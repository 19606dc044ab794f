// Broadcast along a chain, cut into pieces that follow one another: for large tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// The root's `in` in every other rank's `out`; n ranks, S bytes. The root's `out` is not touched.
/// n-2 + S/256 KiB steps of 256 KiB; every rank but the last of the chain sends S bytes.
Status chain_broadcast(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
