#include "core/protocol/tree.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace ronde {
namespace {

/// Children of a leader on other hosts at most.
constexpr int kFanOut = 8;

/// The lowest member of each host, in ascending order of rank.
struct Leaders {
  std::vector<int> ranks;
  std::unordered_map<int, int> index_of_host;
};

Leaders find_leaders(const std::vector<int>& members, const std::vector<int>& hosts) {
  Leaders leaders;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto number = static_cast<int>(leaders.ranks.size());
    if (!leaders.index_of_host.try_emplace(hosts[i], number).second) continue;
    leaders.ranks.push_back(members[i]);
  }
  return leaders;
}

}  // namespace

int leader_above(int index) { return index == 0 ? -1 : (index - 1) / kFanOut; }

std::vector<int> leaders_below(int index, int count) {
  std::vector<int> below;
  for (int i = 1; i <= kFanOut && index * kFanOut + i < count; ++i) {
    below.push_back(index * kFanOut + i);
  }
  return below;
}

TreePlace place_in_tree(int rank, const std::vector<int>& members, const std::vector<int>& hosts) {
  const Leaders leaders = find_leaders(members, hosts);
  const auto mine = std::find(members.begin(), members.end(), rank);
  const int host = hosts[static_cast<std::size_t>(mine - members.begin())];
  const int index = leaders.index_of_host.at(host);
  const auto leader = [&](int number) { return leaders.ranks[static_cast<std::size_t>(number)]; };
  TreePlace place;
  if (leader(index) != rank) {
    place.parent = leader(index);
    return place;
  }
  if (index > 0) place.parent = leader(leader_above(index));
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (hosts[i] == host && members[i] != rank) place.children.push_back(members[i]);
  }
  for (const int child : leaders_below(index, static_cast<int>(leaders.ranks.size()))) {
    place.children.push_back(leader(child));
  }
  std::sort(place.children.begin(), place.children.end());
  return place;
}

}  // namespace ronde
