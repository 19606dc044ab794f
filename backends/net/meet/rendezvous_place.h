// The place of a rank in the tree of a rendezvous: which rank it connects to, and which to it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/base/os/endpoint.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde::net {

/// The place of a rank in the tree.
struct RendezvousPlace {
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
  bool open = false;  ///< Any ranks may come, and are reported as they do; `children` is empty.
};

/// The place of the rank at which all `ranks` meet directly: a star.
RendezvousPlace place_of_root(std::span<const int> ranks);

/// The place of config.rank by config.rendezvous_tree; nothing where that is empty, or describes
/// another number of ranks. Errors: kInvalidArgument naming the value and what is allowed.
Result<std::optional<RendezvousPlace>> place_in_rendezvous(const Config& config);

}  // namespace ronde::net
