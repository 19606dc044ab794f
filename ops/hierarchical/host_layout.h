// How the ranks of a group are spread over hosts: what all collectives of two levels go by.
#pragma once

#include <cstddef>
#include <vector>

#include "core/ports/backend.h"

namespace ronde {

/// How the ranks of a group are spread over hosts.
struct HostLayout {
  std::vector<std::vector<int>> hosts;  ///< Group ranks of each host, hosts by their lowest rank.
  std::size_t host = 0;                 ///< Of this rank.
  int local = 0;                        ///< This rank's position on its host.

  /// Parts that travel between hosts at the same time: the fewest ranks of any host.
  [[nodiscard]] int lanes() const noexcept;
  /// Whether there are several hosts, and one of them has several ranks.
  [[nodiscard]] bool has_levels() const noexcept;
  /// The i-th rank of every host that has one, i being this rank's position on its own.
  [[nodiscard]] std::vector<int> lane_members() const;
};

/// The layout of a group, the same on all its ranks but for `host` and `local`.
HostLayout host_layout(const GroupSpec& group);

/// The ranks of `group` on this rank's host, in the layout's order, as a group with a key of its
/// own.
GroupSpec group_inside(const GroupSpec& group, const HostLayout& layout);

}  // namespace ronde
