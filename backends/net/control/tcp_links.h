// Frames between ranks of different hosts, over authenticated TCP connections. At the start, the
// leaders of hosts are linked along a tree (watched_ranks). Any other link is made when a frame
// first needs it. The connection manager's thread reads, and writes the bytes that sockets did not
// take at once.
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
// A link is a Connection. The higher rank of a pair dials; a lower one that needs a link dials to
// ask for it. With a reconnect limit, a link that closes or whose peer's host falls silent is no
// loss yet: it is made again, and the messages that the peer lacks are sent again.
//
// A rank that leaves says goodbye after its last frame, and waits until the peer has read it. The
// peer closes the link then; one that heals acknowledges the goodbye before.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/outage.h"
#include "backends/net/connection/socket.h"
#include "backends/net/control/link_peers.h"
#include "backends/net/control/losses.h"
#include "backends/net/control/peer_liveness.h"
#include "backends/net/mesh/connection_manager.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"
#include "core/ports/topology.h"

namespace ronde::net {

/// Notifications of the process. Called in the manager's thread, after poll() has the event too.
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
  Identity identity;   ///< Of this rank, for links.
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
  void put(std::vector<LinkItem> items) RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (items_.empty()) items_.swap(items);
      std::ranges::move(items, std::back_inserter(items_));
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

/// The links of one rank. Threads: one at a time, unless a method says otherwise. A forked child
/// must not destroy it: that would say goodbye on the parent's connections.
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
    return peers_.of(rank).connection.may_deliver() ||
           std::ranges::find(news_.items, rank, &LinkItem::from) != news_.items.end();
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
  /// The process learns these at the end of a turn, without the lock: a thread that learns of a
  /// frame may send.
  struct News {
    std::vector<LinkItem> items;
    std::vector<LostRank> lost;
    std::vector<std::pair<int, PeerLiveness>> changed;
    std::vector<std::pair<int, LinkOutage>> healed;
  };

  // In the manager's thread.
  void on_link(Link link) RONDE_EXCLUDES(mutex_);
  void on_dial_failure(int rank, const Status& why) RONDE_EXCLUDES(mutex_);
  TimePoint tend(int rank) RONDE_EXCLUDES(mutex_);
  void publish() RONDE_EXCLUDES(mutex_);
  void serve(int rank) RONDE_REQUIRES(mutex_);
  bool turn(int rank, LinkPeer& peer) RONDE_REQUIRES(mutex_);
  void on_begin(int rank, LinkPeer& peer) RONDE_REQUIRES(mutex_);
  void on_message(int from, ReceiveWindow::Message message) RONDE_REQUIRES(mutex_);
  void on_goodbye(int rank, LinkPeer& peer) RONDE_REQUIRES(mutex_);
  void on_end(int rank, LinkPeer& peer, Loss how) RONDE_REQUIRES(mutex_);
  void release(int rank, LinkPeer& peer) RONDE_REQUIRES(mutex_);
  void beat(TimePoint time) RONDE_REQUIRES(mutex_);
  void look_at(int rank, LinkPeer& peer, TimePoint time) RONDE_REQUIRES(mutex_);
  void report(const LostRank& lost) RONDE_REQUIRES(mutex_);

  // In any thread.
  void need_link(int rank, LinkPeer& peer, TimePoint deadline) RONDE_REQUIRES(mutex_);
  void dial_where_needed(int rank, LinkPeer& peer) RONDE_REQUIRES(mutex_);
  void on_no_link(int rank, LinkPeer& peer, const Status& why) RONDE_REQUIRES(mutex_);
  void flush(int rank, LinkPeer& peer) RONDE_REQUIRES(mutex_);
  void watch(int rank, const LinkPeer& peer) RONDE_REQUIRES(mutex_);
  void lose(int rank, Loss how) RONDE_REQUIRES(mutex_);
  void learn(const LostRank& lost, int from = -1) RONDE_REQUIRES(mutex_);
  bool spread(const LostRank& lost, int from) RONDE_REQUIRES(mutex_);
  void mend_tree() RONDE_REQUIRES(mutex_);
  void notify() RONDE_REQUIRES(mutex_);
  void leave(Leaving part) RONDE_REQUIRES(mutex_);

  const pid_t process_ = ::getpid();
  const Topology& topology_;
  const LinkArgs args_;
  const LossLimits limits_;
  const LinkHooks hooks_;
  const FileDescriptor changed_ = make_event();  // for connect()
  LinkItems items_;
  Mutex mutex_;
  CondVar links_changed_;
  ConnectionManager::ServiceId service_ RONDE_GUARDED_BY(mutex_) = 0;
  LinkPeers peers_ RONDE_GUARDED_BY(mutex_);
  FirstLinks first_links_ RONDE_GUARDED_BY(mutex_);
  News news_ RONDE_GUARDED_BY(mutex_);
  std::vector<int> unfinished_ RONDE_GUARDED_BY(mutex_);  // no event tells of their next turn
  TimePoint next_beat_ RONDE_GUARDED_BY(mutex_);
  bool members_changed_ RONDE_GUARDED_BY(mutex_) = false;
  std::size_t interface_ RONDE_GUARDED_BY(mutex_) = 0;  // for the next dial
  bool closed_ = false;                                 // the closing thread
};

}  // namespace ronde::net
