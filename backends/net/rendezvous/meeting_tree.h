// The tree by which the ranks of many hosts meet, as the launcher lays it out. The ranks of a host
// meet at its lowest one, the leader. Leaders form a tree with up to eight below each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/os/endpoint.h"
#include "core/base/status.h"

namespace ronde::net {

/// The place of a rank in the tree.
struct MeetingPlace {
  /// A rank that connects to this one.
  struct Child {
    int rank = -1;
    std::vector<int> behind;  ///< The ranks that meet through it, ascending.
  };

  Endpoint own;                 ///< Where the leader of this host listens.
  int parent = -1;              ///< -1 for rank 0.
  Endpoint parent_at;           ///< Where that listens.
  std::vector<Child> children;  ///< Ascending; of leaders alone.
  int levels_below = 0;
};

/// The place of config.rank by config.rendezvous_tree; nothing where that is empty, or describes
/// another number of ranks. Errors: kInvalidArgument naming the value and what is allowed.
Result<std::optional<MeetingPlace>> place_in_meeting(const Config& config);

}  // namespace ronde::net
