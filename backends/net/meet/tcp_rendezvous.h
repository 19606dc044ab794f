// The rendezvous of ranks on several hosts: rank 0 listens, the others connect to it, and all learn
// the address of each rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/secret.h"
#include "backends/net/meet/rendezvous.h"
#include "core/base/os/endpoint.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde::net {

// The network interfaces of this host that carry data between hosts, as the user chooses them.

/// The addresses, with port 0, of the interfaces that `setting` lists: RONDE_NETWORK_INTERFACE,
/// "eth0,eth1". The first one's also serves the rendezvous and the control channel. Where there
/// are several, each must be up and have an address of `family`, that of the rendezvous.
/// Errors: kInvalidArgument naming the one that is wrong.
Result<std::vector<Endpoint>> interface_addresses(const std::string& setting, int family);

/// The result of the rendezvous.
struct RemoteJob {
  Roster roster;  ///< Of all ranks.
  std::vector<FileDescriptor>
      listeners;                ///< Where this rank accepts links: one for each interface.
  std::vector<Endpoint> local;  ///< Their addresses, with port 0.
  Secret secret;                ///< The given one, or that of rank 0.
};

/// The address of the socket of the first rank of a host, the leader, without a tree of hosts.
Endpoint leader_endpoint(const std::string& rendezvous, const Identity& identity,
                         const std::optional<Secret>& secret);

/// Connects all ranks at config.rendezvous. `identity` has the purpose kRendezvous; its keys and
/// its introduction's address are filled in. Without a secret rank 0 makes one and hands it out
/// (see handover.h). `cancel`, where not null, ends it early. Blocks. Errors: as meet_by_tree;
/// kInvalidArgument naming RONDE_RENDEZVOUS or RONDE_NETWORK_INTERFACE; kUnavailable
/// where a secret cannot be handed out.
Result<RemoteJob> rendezvous_across_hosts(const Config& config, Identity& identity,
                                          const std::optional<Secret>& secret,
                                          const CancelSource* cancel);

}  // namespace ronde::net
