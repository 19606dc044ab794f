// The parts of a transport whose connections heal.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/rendezvous/handshake.h"
#include "backends/net/rendezvous/socket.h"
#include "backends/net/transport/members.h"
#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/ports/connection_counts.h"

namespace ronde::net {

inline constexpr std::size_t kHealingWindowBytes = std::size_t{8} << 20;

struct HealingTransportArgs {
  Members members;
  Party party;  ///< Of this rank, for connections of this group alone.
  std::shared_ptr<ConnectionManager> manager;
  /// This rank's network cards, by name: one at least.
  std::vector<std::string> cards;
  /// The way to a rank over the card of that place in the list.
  std::function<Result<Route>(const FailedRank& who, std::size_t card)> route;
  Duration timeout{};  ///< For the first connection with a peer.
  Duration limit{};    ///< For an outage of all connections with a peer.
  /// An outage of one card alone ends the group too after that time. False: the others go on.
  bool needs_all_cards = false;
  std::shared_ptr<AbortToken> abort;  ///< Of the group; ends the goodbye. May be null.
  std::size_t window_bytes = kHealingWindowBytes;
  ConnectionObservers observers = {};
};

}  // namespace ronde::net
