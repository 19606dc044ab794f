// The parts of a TcpTransport.
#pragma once

#include <functional>
#include <memory>

#include "backends/net/link/connection_manager.h"
#include "backends/net/transport/members.h"
#include "core/base/clock.h"
#include "core/base/os/endpoint.h"
#include "core/base/status.h"

namespace ronde::net {

struct TcpTransportArgs {
  Members members;
  Party party;  ///< Of this rank, for connections of this group alone.
  std::shared_ptr<ConnectionManager> manager;
  /// The address at which a rank accepts connections.
  std::function<Result<Endpoint>(const FailedRank& who)> address;
  Duration timeout{};  ///< For one connection.
  /// A peer that has not dialed for so long may have left the group: see TcpBackendArgs.
  Duration late_after{};
};

}  // namespace ronde::net
