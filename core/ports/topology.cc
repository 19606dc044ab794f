#include "core/ports/topology.h"

#include <algorithm>

namespace ronde {

std::vector<int> Topology::host_ranks(int of) const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) {
    if (same_host(of, r)) ranks.push_back(r);
  }
  return ranks;
}

int Topology::host_count() const {
  int highest = -1;
  for (const PeerInfo& peer : peers) highest = std::max(highest, peer.host_index);
  return highest + 1;
}

}  // namespace ronde
