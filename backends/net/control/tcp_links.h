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

#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/outage.h"
#include "backends/net/connection/socket.h"
#include "backends/net/control/link_peers.h"
#include "backends/net/control/losses.h"
#include "backends/net/control/peer_liveness.h"
#include "backends/net/control/tcp_link.h"
#include "backends/net/mesh/connection_manager.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"
#include "core/ports/topology.h"

namespace ronde::net {

/// Notifications of the process. Called in the links' thread, after poll() has the event too.
struct LinkHooks {
  std::function<void()> frame_arrived;
  std::function<void(const LostRank&)> rank_lost;
  /// A watched rank froze, or runs again.
  std::function<void(int rank, const PeerLiveness& peer)> rank_changed;
  std::function<void(int rank, const LinkOutage& outage)> link_healed;
};

/// The way to the ranks of other hosts.
struct LinkArgs {
  std::shared_ptr<ConnectionManager> manager;
  Party party;         ///< Of this rank, for links.
  Routes routes;       ///< All but the first: for links that heal.
  Duration timeout{};  ///< For one link.
};

/// One thing that TcpLinks::poll delivers.
struct LinkItem {
  int from = -1;
  std::vector<std::byte> frame;
  std::optional<LostRank> lost;  ///< Instead of a frame.
};

/// A queue of them. Threads: any puts, one delivers.
class LinkItems {
 public:
  void put(LinkItem item) RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      items_.push_back(std::move(item));
    }
    // Sequentially consistent: comes before a hook reads which thread to wake.
    arrived_.store(true, std::memory_order_seq_cst);
  }

  /// True where there was anything.
  bool deliver(const ChannelEvents& events) RONDE_EXCLUDES(mutex_) {
    arrived_.store(false, std::memory_order_seq_cst);
    std::vector<LinkItem> items;
    {
      const MutexLock lock(mutex_);
      items.swap(items_);
    }
    for (const LinkItem& item : items) {
      if (item.lost) {
        events.on_lost(*item.lost);
      } else {
        events.on_frame(item.from, item.frame);
      }
    }
    return !items.empty();
  }

  /// True once something has been put since deliver() began.
  [[nodiscard]] const std::atomic<bool>& arrived() const noexcept { return arrived_; }

 private:
  std::atomic<bool> arrived_{false};
  Mutex mutex_;
  std::vector<LinkItem> items_ RONDE_GUARDED_BY(mutex_);
};

/// Dials over one interface after another where links heal. No call blocks. Threads: one at a time.
class LinkDialer {
 public:
  /// As ConnectionManager::dial.
  using Dial = std::function<void(int rank, const Route& route, TimePoint deadline)>;

  /// `routes` outlive it. `reconnect`: as LossLimits has it.
  LinkDialer(const Routes& routes, Duration reconnect, Dial dial)
      : routes_(routes),
        reconnect_(reconnect),
        dial_(std::move(dial)),
        interfaces_(reconnect > Duration::zero() ? routes.count() : 1) {}

  /// Dials a peer until `deadline`; one whose link has broken until its outage lasts too long.
  /// Does nothing while it is dialed.
  void dial(int rank, LinkPeer& peer, TimePoint deadline);
  /// A dial has failed for `why`. True: another interface has the rest of the time.
  bool try_next_interface(int rank, LinkPeer& peer, const Status& why);

 private:
  void dial_over_an_interface(int rank, const LinkPeer& peer);

  const Routes& routes_;
  const Duration reconnect_;
  const Dial dial_;
  const std::size_t interfaces_;  // that links may go over
  std::size_t interface_ = 0;     // for the next dial
};

/// The links of one rank. Threads: one at a time, unless a method says otherwise. A forked child
/// must not destroy it: the child shares the parent's epoll instance, and has no such thread.
class TcpLinks {
 public:
  /// `topology` outlives it.
  TcpLinks(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks);
  ~TcpLinks();
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  /// Links this rank with those that it watches. Blocks. Errors: kTimeout naming ranks;
  /// kRankFailure where a rank has ended.
  Status connect(const WaitLimit& limit) RONDE_EXCLUDES(mutex_);

  /// Queues a frame to a rank of another host. Blocks: never.
  void send(int to, std::span<const std::byte> frame) RONDE_EXCLUDES(mutex_);

  /// Passes on a loss that poll() does not deliver, as this host knows of it: of one of its ranks,
  /// or one that another of its ranks has found. Blocks: never. Threads: any.
  void pass_on(const LostRank& lost) RONDE_EXCLUDES(mutex_);

  /// True while frames of `rank` may still come. Threads: any.
  [[nodiscard]] bool is_linked(int rank) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return peers_.of(rank).may_deliver();
  }

  /// Delivers what has arrived; true where there was anything. A rank that left comes after its
  /// last frame. Blocks: never.
  bool poll(const ChannelEvents& events) {
    return items_.arrived().load(std::memory_order_seq_cst) && items_.deliver(events);
  }

  /// Sends what is queued and a goodbye, and waits until the peers have read it. That takes a round
  /// trip, and 3 s at most; with a reconnect limit, as long as that for the peers that need it.
  /// Idempotent; does nothing in a forked child.
  void close() noexcept RONDE_EXCLUDES(mutex_);

  /// The process that has made it.
  [[nodiscard]] pid_t process() const noexcept { return process_; }

 private:
  void adopt(Link link) RONDE_EXCLUDES(mutex_);
  void on_begin(TcpLink& link) RONDE_EXCLUDES(mutex_);
  void on_message(TcpLink& from, const FrameHead& head, std::span<const std::byte> bytes)
      RONDE_EXCLUDES(mutex_);
  bool take_number(TcpLink& from, const FrameHead& head, std::size_t bytes) RONDE_EXCLUDES(mutex_);
  void take_numbered(TcpLink& from, FrameKind kind, std::span<const std::byte> bytes);
  void on_end(TcpLink& link) RONDE_EXCLUDES(mutex_);
  void on_dial_failure(int rank, const Status& why) RONDE_EXCLUDES(mutex_);
  void dial(int rank, TimePoint deadline) RONDE_REQUIRES(mutex_) {
    dialer_.dial(rank, peers_.of(rank), deadline);
  }
  void learn(const LostRank& lost, const TcpLink* from) RONDE_EXCLUDES(mutex_);
  void lose(int rank, Loss how) RONDE_EXCLUDES(mutex_);
  bool spread(const LostRank& lost, const TcpLink* from) RONDE_REQUIRES(mutex_);
  void report(const LostRank& lost) RONDE_EXCLUDES(mutex_);
  void mend_tree() RONDE_EXCLUDES(mutex_);
  void notify() RONDE_REQUIRES(mutex_);
  void send_goodbyes() RONDE_EXCLUDES(mutex_);
  void leave(Leaving part) RONDE_REQUIRES(mutex_);
  void arm_timer();
  void on_timer();
  void look_at(TcpLink& link) RONDE_EXCLUDES(mutex_);
  void heal() RONDE_EXCLUDES(mutex_);

  const pid_t process_ = ::getpid();
  const Topology& topology_;
  const LinkArgs args_;
  const LossLimits limits_;
  const LinkHooks hooks_;
  const LinkSink sink_;
  const FileDescriptor changed_ = make_event();  // for connect()
  ConnectionManager::ServiceId service_ = 0;
  asio::io_context io_{1};
  LinkItems items_;
  std::atomic<bool> members_changed_{false};
  // I/O thread only.
  asio::steady_timer timer_{io_};
  std::list<TcpLink> links_;  // those that have ended go at the next look
  // Guarded.
  Mutex mutex_;
  CondVar links_changed_;
  LinkPeers peers_ RONDE_GUARDED_BY(mutex_);
  LinkDialer dialer_ RONDE_GUARDED_BY(mutex_);
  FirstLinks first_links_ RONDE_GUARDED_BY(mutex_);
  bool closed_ = false;  // the closing thread
  std::thread thread_;
};

}  // namespace ronde::net
