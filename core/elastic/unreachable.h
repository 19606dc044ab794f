// Chooses the hosts that an elastic job gives up when its hosts do not all reach each other.
#pragma once

#include <string>
#include <vector>

#include "core/elastic/roster.h"

namespace ronde::elastic {

/// How ranks of two hosts missed each other.
enum class Missing {
  kConnection,  ///< They could not be connected at the start of the epoch.
  kLater,       ///< They lost each other in an epoch that had begun.
};

/// The hosts to leave out where ready workers of `epoch` missed each other so: then those left
/// reach each other. Hosts that miss most of the others go first; of equals, the last one.
std::vector<std::string> unreachable_hosts(const Roster& roster,
                                           const std::vector<std::string>& hosts, EpochId epoch,
                                           Missing how);

}  // namespace ronde::elastic
