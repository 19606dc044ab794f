// The collectives over several hosts of several ranks, in host memory.
#pragma once

#include "ops/hierarchical/levels.h"

namespace ronde {

/// Allreduce over several hosts: inside each host the ranks reduce and scatter, then the i-th ranks
/// of all hosts (peers) reduce the i-th chunk between them, then the ranks of each host gather.
/// Large tensors go in slices: while one is between hosts, the next is reduced.
/// `between` is the communicator of this rank's peers: dense, or lossy, which then applies the
/// factors. Per host 2(m-1)/m of the bytes leave and as many come, for m hosts; 16-bit types travel
/// as fp32 and are rounded once. All ranks hold the same bits.
/// Source: Horovod's hierarchical allreduce; Cho et al., "BlueConnect", SysML 2019.
Status hierarchical_allreduce(const Levels& levels, Communicator& between, const Work& work,
                              const AbortToken& abort);

/// Broadcast over several hosts: from the root to one rank of each other host, then inside the
/// hosts. Large tensors go in slices: while one is spread inside hosts, the next is between them.
/// Steps: those of the algorithm between m hosts, then those inside. The bytes enter each host but
/// the root's once: with a chain between hosts each sends them once at most.
Status hierarchical_broadcast(const Levels& levels, const Work& work, const AbortToken& abort);

/// Allgather over several hosts: each host gathers at one rank, those exchange what their hosts
/// have, and each spreads all of it inside its host.
/// Steps: those of a gather and a broadcast inside a host, and of an allgather of m hosts between.
/// (m-1)/m of the bytes enter and leave a host if chunks are even, however many ranks it has.
Status hierarchical_allgather(const Levels& levels, const Work& work, const AbortToken& abort);

/// Reduce-scatter over several hosts: each host reduces at one rank, those reduce and scatter what
/// belongs to their hosts, and each scatters that inside its host.
/// Steps: those of a reduce and a scatter inside a host, and of a reduce_scatter of m hosts
/// between. Of S bytes, S less its own chunks leave a host and (m-1) times its own chunks come,
/// however many ranks it has; 16-bit types travel as fp32 and are rounded once.
Status hierarchical_reduce_scatter(const Levels& levels, const Work& work, const AbortToken& abort);

}  // namespace ronde
