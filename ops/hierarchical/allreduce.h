// Allreduce over several hosts: inside each host the ranks reduce and scatter, then the i-th ranks
// of all hosts (a lane) reduce the i-th chunk between them, then the ranks of each host gather.
// Large tensors go in slices: while one is between hosts, the next is reduced.
#pragma once

#include "ops/hierarchical/levels.h"

namespace ronde {

/// `between` is the communicator of this rank's lane: dense, or lossy, which then applies the
/// factors. Per host 2(m-1)/m of the bytes leave and as many come, for m hosts; 16-bit types travel
/// as fp32 and are rounded once. All ranks hold the same bits.
/// Source: Horovod's hierarchical allreduce; Cho et al., "BlueConnect", SysML 2019.
Status hierarchical_allreduce(const Levels& levels, Communicator& between, const Work& work,
                              const AbortToken& abort);

}  // namespace ronde
