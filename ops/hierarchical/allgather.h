// Allgather over several hosts: each host gathers at one rank, those exchange what their hosts
// have, and each spreads all of it inside its host.
#pragma once

#include "ops/hierarchical/levels.h"

namespace ronde {

/// Steps: those of a gather and a broadcast inside a host, and of an allgather of m hosts between.
/// Of S bytes, (m-1)/m S enter and leave a host where parts are even, however many ranks it has.
Status hierarchical_allgather(const Levels& levels, const Work& work, const AbortToken& abort);

}  // namespace ronde
