// Where a rank stands among the ranks of its host, and among the hosts.
#pragma once

#include <vector>

#include "core/ports/topology.h"

namespace ronde {

/// Position of `rank` in `ranks`; their number where it is not among them.
int position(const std::vector<int>& ranks, int rank);

/// The places that Horovod's users ask for.
struct RankPlace {
  int local_rank = 0;  ///< Position among the ranks of this host.
  int local_size = 1;  ///< Ranks on this host.
  int cross_rank = 0;  ///< Position among the ranks with this local rank, one for each host.
  int cross_size = 1;  ///< Hosts that have a rank with this local rank.
};

/// The place of `topology.rank`.
RankPlace rank_place(const Topology& topology);

}  // namespace ronde
