#include "bindings/runtime/rank_place.h"

#include <algorithm>

namespace ronde {

int position(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

RankPlace rank_place(const Topology& topology) {
  const std::vector<int> here = topology.host_ranks(topology.rank);
  RankPlace place;
  place.local_rank = position(here, topology.rank);
  place.local_size = static_cast<int>(here.size());
  std::vector<int> cross;
  for (int r = 0; r < topology.size(); ++r) {
    if (position(topology.host_ranks(r), r) == place.local_rank) cross.push_back(r);
  }
  place.cross_rank = position(cross, topology.rank);
  place.cross_size = static_cast<int>(cross.size());
  return place;
}

}  // namespace ronde
