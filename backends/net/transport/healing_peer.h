// One peer of a HealingTransport: its link, the dials that the link needs, and the outages that are
// worth a report.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/rendezvous/cards.h"
#include "backends/net/transport/healing_transport_args.h"
#include "backends/net/transport/link_reports.h"
#include "backends/net/transport/striped_link.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// The parts that all peers of a transport share.
struct PeerNeeds {
  const HealingTransportArgs& args;
  const LinkReports& reports;
  const std::vector<ConnectionManager::ServiceId>& services;  ///< By card.
};

/// Errors are those of the transport: nothing moves any more. No call blocks. Threads: one at a
/// time.
class HealingPeer {
 public:
  /// `needs` outlive it. `rank` is that in the group.
  HealingPeer(int rank, const PeerNeeds& needs);

  [[nodiscard]] StripedLink& link() noexcept { return link_; }
  [[nodiscard]] const StripedLink& link() const noexcept { return link_; }

  /// Takes a connection that was made.
  void take_link(std::size_t card, Link made);
  /// Takes the end of a dial. Nobody needs a connection with a peer that has ended after all
  /// transfers, nor a card that does not work beside one that does.
  Status take_failure(std::size_t card, const Status& why);

  /// Connects over all cards where that is needed.
  Status connect();
  /// One turn of the link.
  Status progress(bool& moved);
  /// The sending half of it.
  Status progress_sends(bool& moved);
  /// The slow part of a turn: silence, limits and new connections.
  Status look(TimePoint time);

  /// True once the peer lacks nothing that was sent, or has ended.
  [[nodiscard]] bool may_end() const noexcept { return ended_ || link_.may_end(); }

 private:
  Status connect(std::size_t card);
  Status dial(std::size_t card);
  [[nodiscard]] Status check() const;
  [[nodiscard]] Status check_outage(std::size_t card) const;
  void report_outages();
  void leave_out(std::size_t card, const std::string& reason);
  /// True where a card may be left out beside those that work.
  [[nodiscard]] bool goes_on() const noexcept {
    return !needs_.args.needs_all_cards && link_.works();
  }

  const int rank_;
  const PeerNeeds& needs_;
  StripedLink link_;
  std::bitset<kMostCards> dialing_;
  std::bitset<kMostCards> left_out_;  // the user knows
  bool ended_ = false;                // its process refuses connections
};

}  // namespace ronde::net
