// The hosts of a running job, as its launcher sees them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "bindings/cli/launch/agent_link.h"
#include "bindings/cli/launch/messages.h"

namespace ronde {

/// One host, its agent, and those of its ranks that have not ended.
struct Host {
  const HostRanks* ranks = nullptr;
  AgentLink link;
  std::set<int> unfinished;

  [[nodiscard]] std::string name() const { return ranks->name.empty() ? "this host" : ranks->name; }
};

/// Sends a frame to all agents, or to all but one.
void send_to_all(std::vector<Host>& hosts, const std::string& frame, const Host* but = nullptr);

/// Waits for the agents, which have ended or are told to.
void reap_agents(const std::vector<Host>& hosts);

/// "rank 1 has ended, ranks 0, 2 and 3 still run"; empty where all or none have ended.
std::string still_running(const std::vector<Host>& hosts);

/// "rank 0", "ranks 0, 2 and 3", "ranks 0, 1, 2, 3 and 60 more".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace ronde
