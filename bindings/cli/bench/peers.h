// The libraries that `ronde bench --peers` names: which of them can run here.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"

namespace ronde::bench {

/// A peer that cannot be measured here.
struct MissingPeer {
  std::string name;
  std::string why;
};

/// Those of `peers` that cannot run on this host. Starts mpirun for a moment if "mpi" is one of
/// them. Threads: call from the only one.
std::vector<MissingPeer> missing_peers(const std::vector<std::string>& peers, const Config& config);

}  // namespace ronde::bench
