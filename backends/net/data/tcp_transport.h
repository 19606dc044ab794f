// Point-to-point over connections with each peer, made when a transfer with it is first posted. All
// posted transfers move on during any wait, in both directions. So two ranks that send to each
// other do not block each other.
//
// Where connections heal (RONDE_RECONNECT_SECONDS, or several interfaces), they are opened again
// when they break. The manager's thread drives them while no caller waits. So a peer that lacks
// something never depends on the next call of this rank.
//
// Where the number of connections is limited, that thread tends those that carry nothing. An idle
// one may end, and is made again when it is next used.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/socket.h"
#include "backends/net/data/members.h"
#include "backends/net/mesh/connection_manager.h"
#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/connection_counts.h"
#include "core/ports/transport.h"

namespace ronde::net {

struct TcpTransportArgs {
  Members members;
  Identity identity;  ///< Of this rank, for connections of this group alone.
  std::shared_ptr<ConnectionManager> manager;
  bool between_hosts = false;  ///< Connections count in the manager's budget.
  /// The way to a rank over the interface of that place in the list of `members`.
  std::function<Route(const FailedRank& who, std::size_t interface)> route;
  Duration timeout{};  ///< For the first connection with a peer.
  /// A peer that has not dialed for so long may have left the group: see TcpBackendArgs.
  Duration late_after{};
  /// So much is kept for each peer to be sent again: connections heal. 0: they do not, there is one
  /// with each peer, and nothing is copied.
  std::size_t window_bytes = 0;
  // Where they heal:
  Duration limit{};  ///< For an outage of all connections with a peer.
  /// An outage of one interface alone ends the group too after that time. False: the others go on.
  bool needs_all_interfaces = false;
  std::shared_ptr<AbortToken> abort = nullptr;  ///< Of the group; ends the goodbye. May be null.
  ConnectionObservers observers = {};
};

/// The parts that all peers of a transport share.
struct PeerNeeds {
  const TcpTransportArgs& args;
  const std::vector<ConnectionManager::ServiceId>& services;  ///< By interface.
};

/// Its destructor blocks until the peers have what was sent to them, where connections heal: as
/// long as an outage may last at most. Errors: kResourceExhausted.
Result<std::unique_ptr<Transport>> make_tcp_transport(TcpTransportArgs args);

}  // namespace ronde::net
