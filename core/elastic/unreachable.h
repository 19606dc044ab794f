// Chooses the hosts that an elastic job gives up when its hosts do not all reach each other.
#pragma once

#include <string>
#include <vector>

#include "core/elastic/roster.h"

namespace ronde::elastic {

/// If the ranks of `epoch` could not be connected because hosts do not reach each other: the hosts
/// that miss most of the others, so that those left reach each other. Of equals the last one goes.
std::vector<std::string> unreachable_hosts(const Roster& roster,
                                           const std::vector<std::string>& hosts, EpochId epoch);

}  // namespace ronde::elastic
