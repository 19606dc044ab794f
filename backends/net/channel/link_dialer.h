// The dials for the links of one rank: over which card each goes, and how long it may take.
#pragma once

#include <cstddef>
#include <functional>

#include "backends/net/channel/link_peers.h"
#include "backends/net/channel/tcp_links.h"
#include "backends/net/link/connection_manager.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// Dials over one card after another where links heal. No call blocks. Threads: one at a time.
class LinkDialer {
 public:
  /// `args` outlives it. `reconnect`: as LossLimits has it. `no_route`: is called where there is no
  /// way to a rank; it must not call the dialer.
  LinkDialer(const LinkArgs& args, Duration reconnect,
             std::function<void(int rank, Status why)> no_route);

  /// The dials are for this service.
  void serve(ConnectionManager::ServiceId service) noexcept { service_ = service; }

  /// Dials a peer until `deadline`; one whose link has broken until its outage lasts too long.
  /// Does nothing while it is dialed.
  void dial(int rank, LinkPeer& peer, TimePoint deadline);
  /// A dial has failed for `why`. True: another card has the rest of the time.
  bool try_next_card(int rank, LinkPeer& peer, const Status& why);

 private:
  void dial_over_a_card(int rank, const LinkPeer& peer);

  const LinkArgs& args_;
  const Duration reconnect_;
  const std::function<void(int rank, Status why)> no_route_;
  const std::size_t cards_;  // that links may go over
  ConnectionManager::ServiceId service_ = 0;
  std::size_t card_ = 0;  // for the next dial
};

}  // namespace ronde::net
