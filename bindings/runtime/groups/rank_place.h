// The place of a rank among the ranks of its host, and among the hosts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "core/ports/topology.h"

namespace ronde {

/// Position of `rank` in `ranks`; their number where it is not among them.
inline int position(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// The places that Horovod's users ask for.
struct RankPlace {
  int local_rank = 0;  ///< Position among the ranks of this host.
  int local_size = 1;  ///< Ranks on this host.
  int cross_rank = 0;  ///< Position among the ranks with this local rank, one for each host.
  int cross_size = 1;  ///< Hosts that have a rank with this local rank.
};

/// The place of `topology.rank`.
inline RankPlace rank_place(const Topology& topology) {
  const std::vector<int> here = topology.host_ranks(topology.rank);
  RankPlace place;
  place.local_rank = position(here, topology.rank);
  place.local_size = static_cast<int>(here.size());
  place.cross_size = 0;
  std::unordered_map<int, int> seen;  // ranks of each host so far
  for (int r = 0; r < topology.size(); ++r) {
    const int host = topology.peers[static_cast<std::size_t>(r)].host_index;
    if (seen[host]++ != place.local_rank) continue;
    if (r < topology.rank) ++place.cross_rank;
    ++place.cross_size;
  }
  return place;
}

}  // namespace ronde
