// Frames between ranks of different hosts, over authenticated TCP connections. At the start, the
// leaders of hosts are linked along a tree (watched_ranks). Any other link is made when a frame
// first needs it. One thread of the process reads, and writes the bytes that sockets did not take
// at once.
//
// Ranks that are linked along the tree watch each other: each sends a heartbeat every beat
// interval, the only timer here. A link is lost when its socket closes without a goodbye. It is cut
// when the peer's host acknowledges nothing for the link timeout. A watched peer is frozen when its
// host acknowledges but the peer is silent for the freeze timeout.
//
// News of a loss goes over all links but the one it came by, and once. As ranks leave and die,
// others take their places in the tree and make the links that it lacks: at once after a death,
// else with the next heartbeat. A new link begins with all the news so far.
//
// With a reconnect limit, a link that closes or whose peer's host falls silent is no loss yet: it
// is made again, and the messages that the peer lacks are sent again (LinkSession). Both ends dial,
// the lower rank later. Both links may work then: each rank sends on the one that began last.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/net/channel/loss.h"
#include "backends/net/channel/silence_watch.h"
#include "backends/net/link/connection_manager.h"
#include "backends/net/link/outage.h"
#include "backends/net/rendezvous/handshake.h"
#include "backends/net/rendezvous/routes.h"
#include "backends/net/rendezvous/socket.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/topology.h"

namespace ronde::net {

/// The limits of silence. Zero: none.
struct LossLimits {
  Duration link{0};
  Duration freeze{0};
  Duration reconnect{0};  ///< Of the time without a link, once there was one. Zero: no link heals.
};

/// The events of TcpLinks::poll.
struct LinkEvents {
  std::function<void(int from, std::span<const std::byte>)> on_frame;
  /// Once per rank. For one that left: after its last frame.
  std::function<void(const LostRank&)> on_lost;
};

/// Notifications of the process. Called in the links' thread, after poll() has the event too.
struct LinkHooks {
  std::function<void()> frame_arrived;
  std::function<void(const LostRank&)> rank_lost;
  std::function<void(int rank, Silence what, Duration silence)> rank_silent;
  std::function<void(int rank, const LinkOutage& outage)> link_healed;
};

/// The way to the ranks of other hosts.
struct LinkArgs {
  std::shared_ptr<ConnectionManager> manager;
  Party party;         ///< Of this rank, for links.
  Routes routes;       ///< All but the first: for links that heal.
  Duration timeout{};  ///< For one link.
};

class LinkThread;

/// The links of one rank. Threads: one at a time, unless a method says otherwise.
class TcpLinks {
 public:
  /// `topology` outlives it.
  TcpLinks(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks);
  ~TcpLinks();
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  /// Links this rank with those that it watches. Blocks. Errors: kTimeout naming ranks;
  /// kRankFailure where a rank has ended.
  Status connect(const WaitLimit& limit);

  /// Queues a frame to a rank of another host. Blocks: never.
  void send(int to, std::span<const std::byte> frame);

  /// Passes on a loss that poll() does not deliver, as this host knows of it: of one of its ranks,
  /// or one that another of its ranks has found. Blocks: never. Threads: any.
  void pass_on(const LostRank& lost);

  /// True while frames of `rank` may still come. Threads: any.
  [[nodiscard]] bool is_linked(int rank) const;

  /// Delivers what has arrived; true where there was anything. Blocks: never.
  bool poll(const LinkEvents& events) {
    return arrived().load(std::memory_order_seq_cst) && poll_slowly(events);
  }

  /// Sends what is queued and a goodbye, and waits until the peers have read it. That takes a round
  /// trip, and 3 s at most; with a reconnect limit, as long as that for the peers that need it.
  /// Idempotent; does nothing in a forked child.
  void close() noexcept;

 private:
  [[nodiscard]] const std::atomic<bool>& arrived() const noexcept { return *arrived_; }
  bool poll_slowly(const LinkEvents& events);

  std::unique_ptr<LinkThread> thread_;
  const std::atomic<bool>* arrived_;
};

}  // namespace ronde::net
