// The rendezvous of ranks on one host, on an abstract Unix socket of the lowest of them. It gives
// them a shared segment in which each holds a slot; they may then watch each other.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/secret.h"
#include "backends/net/control/host_channel.h"
#include "backends/net/meet/rendezvous.h"
#include "core/base/abort.h"
#include "core/base/os/endpoint.h"
#include "core/base/status.h"

namespace ronde::net {

/// The arguments of a rank.
struct UnixRendezvousArgs {
  Identity identity;       ///< Without keys; `context` is the job id.
  std::vector<int> ranks;  ///< The job's ranks of this host, ascending.
  /// Without one the host makes a secret and hands it to processes of the same user.
  std::optional<Secret> secret;
  Duration timeout{};
  const CancelSource* cancel = nullptr;  ///< Ends it early; may be null.
};

/// The result.
struct LocalJob {
  std::unique_ptr<HostChannel> channel;
  Roster roster;  ///< Of this host.
  Secret secret;
};

/// The address of the socket, as private_endpoint().
Endpoint rendezvous_endpoint(const UnixRendezvousArgs& args);

/// Blocks until all are connected. Errors: as meet_by_tree.
Result<LocalJob> rendezvous_on_host(UnixRendezvousArgs args);

/// A segment and channel for a rank that is alone on its host: no sockets.
Result<std::unique_ptr<HostChannel>> channel_for_one(int rank, int job_ranks);

}  // namespace ronde::net
