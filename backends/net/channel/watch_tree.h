// The tree along which hosts watch each other, and news of losses spread.
#pragma once

#include <set>
#include <vector>

#include "core/ports/topology.h"

namespace ronde::net {

/// The ranks of other hosts that this rank watches, and that watch it: its place in the tree of
/// core/protocol/tree.h over all ranks but `absent`. Empty if it leads no host. Ascending.
std::vector<int> watched_ranks(const Topology& topology, const std::set<int>& absent);

}  // namespace ronde::net
