// The links along which frames of one process set travel. They depend on members and hosts alone.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace ronde {

/// One rank's place in the tree. Ranks are the job's.
struct TreePlace {
  int parent = -1;            ///< -1 at the root, which coordinates the set.
  std::vector<int> children;  ///< Ascending.

  [[nodiscard]] bool is_root() const noexcept { return parent < 0; }
};

/// One rank of a process set, in the tree of all its members.
struct TreeNode : TreePlace {
  int rank = 0;
  std::span<const int> members;  ///< Ascending; contains `rank`. They outlive it.

  [[nodiscard]] bool is_member(int of_job) const {
    return std::binary_search(members.begin(), members.end(), of_job);
  }
};

/// The place of `rank`. On a host, all members are children of its lowest one. These leaders form a
/// tree in which each has up to eight below it: the fewer the levels, the sooner all have agreed.
/// Its root is the lowest member of all. `hosts` holds the host index of each member; `members` is
/// ascending and contains `rank`.
TreePlace place_in_tree(int rank, const std::vector<int>& members, const std::vector<int>& hosts);

/// The tree of leaders by their number, from 0. The leader above number `index`; -1 at the root.
int leader_above(int index);
/// The leaders below number `index` where there are `count`; up to eight, ascending.
std::vector<int> leaders_below(int index, int count);

}  // namespace ronde
