// Broadcast over several hosts: from the root to one rank of each other host, then inside the
// hosts. Large tensors go in slices: while one is spread inside hosts, the next is between them.
#pragma once

#include "ops/hierarchical/levels.h"

namespace ronde {

/// Steps: those of the algorithm between m hosts, then those inside. The bytes enter each host but
/// the root's once: with a chain between hosts each sends them once at most.
Status hierarchical_broadcast(const Levels& levels, const Work& work, const AbortToken& abort);

}  // namespace ronde
