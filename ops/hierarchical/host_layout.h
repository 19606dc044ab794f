// How the ranks of a group are spread over hosts.
#pragma once

#include <cstddef>
#include <vector>

#include "core/ports/backend.h"

namespace ronde {

/// How the ranks of a group are spread over hosts.
struct HostLayout {
  std::vector<std::vector<int>> hosts;  ///< Group ranks of each host, hosts by their lowest rank.
  std::size_t host = 0;                 ///< This rank's host.
  int local = 0;                        ///< This rank's local rank.

  /// The fewest ranks of any host: so many chunks can move between hosts at the same time.
  [[nodiscard]] int fewest_ranks() const noexcept;
  /// True if there are several hosts, and one of them has several ranks.
  [[nodiscard]] bool has_levels() const noexcept;
  /// The ranks with this rank's local rank, one of each host that has it.
  [[nodiscard]] std::vector<int> peers() const;
};

/// The layout of a group, the same on all its ranks but for `host` and `local`.
HostLayout host_layout(const GroupSpec& group);

/// The ranks of `group` on this rank's host, in the layout's order, as a group with a key of its
/// own.
GroupSpec group_inside(const GroupSpec& group, const HostLayout& layout);

}  // namespace ronde
