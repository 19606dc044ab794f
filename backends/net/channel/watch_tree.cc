#include "backends/net/channel/watch_tree.h"

#include "core/protocol/tree.h"

namespace ronde::net {

std::vector<int> watched_ranks(const Topology& topology, const std::set<int>& absent) {
  std::vector<int> present;
  std::vector<int> hosts;
  for (int rank = 0; rank < topology.size(); ++rank) {
    if (absent.contains(rank)) continue;
    present.push_back(rank);
    hosts.push_back(topology.peers[static_cast<std::size_t>(rank)].host_index);
  }
  const TreePlace place = place_in_tree(topology.rank, present, hosts);
  std::vector<int> ranks = place.children;
  if (!place.is_root()) ranks.insert(ranks.begin(), place.parent);
  std::erase_if(ranks, [&](int rank) { return topology.same_host(rank, topology.rank); });
  return ranks;
}

}  // namespace ronde::net
