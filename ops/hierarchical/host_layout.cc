#include "ops/hierarchical/host_layout.h"

#include <algorithm>
#include <cstdint>

namespace ronde {

int HostLayout::fewest_ranks() const noexcept {
  const auto fewest = std::min_element(
      hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return fewest == hosts.end() ? 0 : static_cast<int>(fewest->size());
}

bool HostLayout::has_levels() const noexcept {
  return hosts.size() > 1 && std::any_of(hosts.begin(), hosts.end(),
                                         [](const auto& ranks) { return ranks.size() > 1; });
}

std::vector<int> HostLayout::peers() const {
  std::vector<int> members;
  for (const std::vector<int>& ranks : hosts) {
    if (ranks.size() > static_cast<std::size_t>(local)) {
      members.push_back(ranks[static_cast<std::size_t>(local)]);
    }
  }
  return members;
}

HostLayout host_layout(const GroupSpec& group) {
  HostLayout layout;
  std::vector<int> seen;  // host numbers, in the order of their lowest rank in the group
  for (int rank = 0; rank < group.size(); ++rank) {
    const int job_rank = group.ranks[static_cast<std::size_t>(rank)];
    const int number = group.topology->peers[static_cast<std::size_t>(job_rank)].host_index;
    const auto found = std::find(seen.begin(), seen.end(), number);
    const auto index = static_cast<std::size_t>(found - seen.begin());
    if (found == seen.end()) {
      seen.push_back(number);
      layout.hosts.emplace_back();
    }
    if (rank == group.rank) {
      layout.host = index;
      layout.local = static_cast<int>(layout.hosts[index].size());
    }
    layout.hosts[index].push_back(rank);
  }
  return layout;
}

GroupSpec group_inside(const GroupSpec& group, const HostLayout& layout) {
  constexpr std::uint64_t kInsideKeys = std::uint64_t{1} << 61;
  GroupSpec inside = group;
  inside.key = group.key | kInsideKeys;
  inside.ranks.clear();
  inside.ranks.reserve(layout.hosts[layout.host].size());
  for (const int rank : layout.hosts[layout.host]) {
    inside.ranks.push_back(group.ranks[static_cast<std::size_t>(rank)]);
  }
  inside.rank = layout.local;
  return inside;
}

}  // namespace ronde
