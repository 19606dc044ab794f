// Reduce by parts, each combined at one rank and sent to the root: for large tensors, and where one
// order of addition is wanted.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Direct reduce-scatter, then the parts go to the root; n ranks, S bytes.
/// Two steps (the first per slice of 4 MiB of input from all ranks together). Every rank but the
/// root sends S bytes, 16-bit types as they are; the root receives 2(n-1)/n S.
/// Order: ascending ranks, rounded once; the same bits however tensors are fused or cut.
Status direct_reduce(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
