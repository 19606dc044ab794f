// Reduce-scatter over several hosts: each host reduces at one rank, those reduce and scatter what
// belongs to their hosts, and each scatters that inside its host.
#pragma once

#include "ops/hierarchical/levels.h"

namespace ronde {

/// Steps: those of a reduce and a scatter inside a host, and of a reduce_scatter of m hosts
/// between. Of S bytes, S less its own parts leave a host and (m-1) times its own parts come,
/// however many ranks it has; 16-bit types travel as fp32 and are rounded once.
Status hierarchical_reduce_scatter(const Levels& levels, const Work& work, const AbortToken& abort);

}  // namespace ronde
