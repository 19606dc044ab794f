// Reduce along a binomial tree: few steps, for small tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// The reduction of all ranks' `in` in the root's `out`; n ranks, S bytes.
/// At most ceil(log2 n) steps. Every rank but the root sends S bytes once (2S for 16-bit floating
/// types, whose partials travel as fp32 and are rounded once). Order: ranks counted from the root,
/// neighbours first: ((0 1) (2 3)) ((4 5) ...).
Status binomial_reduce(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
