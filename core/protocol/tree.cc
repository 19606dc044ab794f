#include "core/protocol/tree.h"

#include <algorithm>
#include <cstddef>

namespace ronde {
namespace {

/// Children of a leader on other hosts at most.
constexpr std::size_t kFanOut = 8;

/// The lowest member of each host, in ascending order of rank.
struct Leaders {
  std::vector<int> ranks;
  std::vector<int> hosts;

  [[nodiscard]] std::size_t index_of_host(int host) const {
    return static_cast<std::size_t>(std::find(hosts.begin(), hosts.end(), host) - hosts.begin());
  }
};

Leaders find_leaders(const std::vector<int>& members, const std::vector<int>& hosts) {
  Leaders leaders;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (leaders.index_of_host(hosts[i]) < leaders.hosts.size()) continue;
    leaders.ranks.push_back(members[i]);
    leaders.hosts.push_back(hosts[i]);
  }
  return leaders;
}

}  // namespace

TreePlace place_in_tree(int rank, const std::vector<int>& members, const std::vector<int>& hosts) {
  const Leaders leaders = find_leaders(members, hosts);
  const auto mine = std::find(members.begin(), members.end(), rank);
  const int host = hosts[static_cast<std::size_t>(mine - members.begin())];
  const std::size_t index = leaders.index_of_host(host);
  TreePlace place;
  if (leaders.ranks[index] != rank) {
    place.parent = leaders.ranks[index];
    return place;
  }
  if (index > 0) place.parent = leaders.ranks[(index - 1) / kFanOut];
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (hosts[i] == host && members[i] != rank) place.children.push_back(members[i]);
  }
  for (std::size_t child = kFanOut * index + 1; child <= kFanOut * (index + 1); ++child) {
    if (child < leaders.ranks.size()) place.children.push_back(leaders.ranks[child]);
  }
  std::sort(place.children.begin(), place.children.end());
  return place;
}

}  // namespace ronde
