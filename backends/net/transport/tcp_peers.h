// The links of a TcpTransport with the other ranks of its group. A link is made when it is first
// used, and dials where that is this rank's part. Links that carry nothing may end.
#pragma once

#include <memory>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/transport/peer_link.h"
#include "backends/net/transport/tcp_transport_args.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/transport.h"

namespace ronde::net {

/// Errors are those of the transport, and name the rank: nothing moves any more. No call blocks,
/// unless it says so. Threads: one at a time.
class TcpPeers {
 public:
  /// Both outlive it. `service`: dials are made for it.
  TcpPeers(const TcpTransportArgs& args, const ConnectionManager::ServiceId& service)
      : args_(args), service_(service), peers_(static_cast<std::size_t>(args.members.size())) {}

  /// The link with `rank` of the group, to post a transfer.
  PeerLink& use(int rank);
  /// Dials where the link needs it; otherwise the peer will.
  Status connect(int rank) { return connect(*peers_[static_cast<std::size_t>(rank)]); }
  /// Connects, and sends what goes now.
  Status send(int rank);
  [[nodiscard]] bool done(TransferId id) const noexcept;

  /// Takes a connection that was made.
  void take_link(Link link);
  /// Takes the end of a dial of a rank of the job.
  Status take_failure(int job_rank, const Status& why);

  /// Moves all posted transfers on; `more` becomes true where more may move without a poll().
  Status progress(bool& more);
  /// Connects with peers that are late to dial, to learn when they leave.
  Status watch_late();
  /// Calls `add(fd, events)` for each descriptor whose events move posted transfers on.
  template <typename Add>
  void for_each_wait(Add add) const {
    for (const Peer* peer : used_) peer->link.for_each_wait(add);
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept;

  /// As IdleConnections names them.
  void tend();
  [[nodiscard]] TimePoint least_recent_use() const noexcept;
  void end_least_recent();

  /// Returns once the peers' hosts have all that was sent, or at the limit. Blocks.
  void wait_until_delivered(TimePoint limit);
  /// In a forked child: leaves the connections as they are.
  void forget();

 private:
  struct Peer {
    explicit Peer(int the_rank, bool dials) : rank(the_rank), link(dials) {}

    int rank;  // in the group
    PeerLink link;
    bool dialing = false;
    TimePoint busy_since;
    TimePoint last_use;
  };

  Peer& peer(int rank);
  Status dial(Peer& peer);
  Status connect(Peer& peer);
  void tend(Peer& peer);
  [[nodiscard]] Peer* least_recently_used() const noexcept;

  const TcpTransportArgs& args_;
  const ConnectionManager::ServiceId& service_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank of the group; null: never used
  std::vector<Peer*> used_;
};

}  // namespace ronde::net
