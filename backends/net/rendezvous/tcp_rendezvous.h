// The rendezvous of ranks on several hosts: rank 0 listens, the others connect to it, and all learn
// the address of each rank.
#pragma once

#include <optional>
#include <string>

#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/handshake.h"
#include "backends/net/rendezvous/rendezvous.h"
#include "backends/net/rendezvous/secret.h"
#include "backends/net/rendezvous/socket.h"
#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde::net {

/// The result of the rendezvous.
struct RemoteJob {
  Roster roster;                          ///< Of all ranks.
  std::vector<FileDescriptor> listeners;  ///< Where this rank accepts links: one for each card.
  std::vector<Endpoint> local;            ///< Their addresses, with port 0.
  Secret secret;                          ///< The given one, or that of rank 0.
};

/// Connects all ranks at config.rendezvous. `party` has the purpose kRendezvous; its keys and its
/// introduction's address are filled in. Without a secret rank 0 makes one and hands it out (see
/// handover.h). `cancel`, where not null, ends it early. Blocks. Errors: as host_rendezvous and
/// reach_host; kInvalidArgument naming RONDE_RENDEZVOUS or RONDE_NETWORK_INTERFACE; kUnavailable
/// where a secret cannot be handed out.
Result<RemoteJob> rendezvous_across_hosts(const Config& config, Party& party,
                                          const std::optional<Secret>& secret,
                                          const CancelSource* cancel);

}  // namespace ronde::net
