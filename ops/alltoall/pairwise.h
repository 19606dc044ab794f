// All-to-all in rounds in which each rank has one partner to send to and one to hear from.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Block r of `in` goes to rank r; `out` holds the blocks received, by sender. n ranks.
/// n-1 steps; each rank sends the bytes of its blocks for others. In place costs one copy of `in`.
Status pairwise_alltoall(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
