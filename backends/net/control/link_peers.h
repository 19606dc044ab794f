// The ranks of other hosts as their links know them, and the news of losses. No thread, no dials.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/net/connection/tcp_progress.h"
#include "backends/net/control/losses.h"
#include "backends/net/control/peer_liveness.h"
#include "backends/net/peer/connection.h"
#include "backends/net/peer/windows.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/control_channel.h"
#include "core/ports/topology.h"

namespace ronde::net {

/// The ranks of other hosts that this rank watches, and that watch it: its place in the tree of
/// core/protocol/tree.h over all ranks but `absent`. Empty if it leads no host. Ascending.
std::vector<int> watched_ranks(const Topology& topology, const std::set<int>& absent);

/// Reads the news of a loss; nothing where it makes no sense.
std::optional<LostRank> read_loss(std::span<const std::byte> bytes, const Topology& topology);

/// The part of the links that end now, as this rank leaves.
enum class Leaving : std::uint8_t { kNo, kUnwatched, kAll };

/// One of them, and the link with it. A frame waits for the link, or until the socket takes it.
struct LinkPeer {
  /// So much is kept for a peer where links heal.
  static constexpr std::size_t kWindowBytes = std::size_t{1} << 20;

  LinkPeer(bool dials, bool heals) noexcept
      : windows(heals ? kWindowBytes : 0, kMaxChunkBytes, kMaxFrameBytes),
        connection({.dials = dials, .windows = windows}) {}
  LinkPeer(const LinkPeer&) = delete;
  LinkPeer& operator=(const LinkPeer&) = delete;

  /// Queues a message. Does nothing where none may follow.
  void post(FrameKind kind, std::span<const std::byte> bytes);
  /// Moves the link on; `sends`: what is queued alone. As Connection::progress.
  Status progress(bool& more, bool sends = false);

  /// True where a link is to be made for messages.
  [[nodiscard]] bool needs_link() const noexcept { return !over && !connection.works(); }
  /// True while the peer may lack messages. Without healing: while they are not written.
  [[nodiscard]] bool has_kept() const noexcept {
    return windows.sends.has_posted() || windows.sends.has_unconfirmed();
  }
  /// Nothing waits for a link with it any more.
  void give_up() noexcept {
    over = true;
    link_by = kForever;
    connection.forget_outage();
  }
  /// Looks at the peer, each beat interval. True where it froze, came back or is gone.
  bool look(TimePoint time);

  PeerWindows windows;
  Connection connection;
  std::deque<std::vector<std::byte>> frames;  // not written
  std::uint64_t written = 0;                  // frames before them
  std::uint64_t attempt = 0;                  // of the link that has begun last
  PeerLiveness liveness{{}};                  // over this link
  TcpProgress progress_seen;
  std::uint64_t answers = 0;     // counts acknowledgements of the peer's host
  TimePoint link_by = kForever;  // one is needed until then
  Status broken;                 // found while sending
  bool watched = false;          // each sends the other heartbeats
  bool has_news = false;         // all losses but its own were queued
  bool dialing = false;
  bool left = false;     // it has said goodbye
  bool closing = false;  // it has, which is no news yet
  bool over = false;     // nothing is sent any more
  bool held = false;     // its departure is known, its last frames are on their way
};

/// All that the links know of peers. Threads: one at a time.
class LinkPeers {
 public:
  /// `topology` outlives it. `heals`: a link that breaks is an outage, no loss.
  LinkPeers(const Topology& topology, bool heals);

  [[nodiscard]] bool heals() const noexcept { return heals_; }
  LinkPeer& of(int rank) {
    return peers_.try_emplace(rank, rank < topology_.rank, heals_).first->second;
  }
  [[nodiscard]] std::map<int, LinkPeer>& all() noexcept { return peers_; }

  /// Queues a frame. False if a link has to be made first.
  bool send(int to, std::span<const std::byte> frame);
  /// A link has begun. It starts with all the news.
  void begin(LinkPeer& peer);
  /// True where the lack of a link with the peer is an outage: others have the news of a rank that
  /// nobody here watches or lacks.
  [[nodiscard]] bool needs(const LinkPeer& peer) const noexcept {
    return !peer.over && (peer.watched || peer.has_kept() || ends_now(peer));
  }

  /// Notes a loss and queues it for all but the rank that it came from. False if it is known.
  bool learn(const LostRank& lost, int from = -1);
  [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
  [[nodiscard]] const LostRank& loss(int rank) const { return lost_.at(rank); }
  /// True after a death.
  [[nodiscard]] bool job_is_broken() const noexcept { return broken_; }

  /// The ranks that have become neighbours in the tree and have no link.
  std::vector<int> mend();
  /// True while one may lack the news of a death until it is linked.
  [[nodiscard]] bool is_mending() const;

  /// The ranks to be watched that never had a link.
  [[nodiscard]] std::set<int> unlinked() const;

  /// From now on such links end, new ones at once.
  void leave(Leaving part);
  [[nodiscard]] bool ends_now(const LinkPeer& peer) const noexcept {
    return leaving_ == Leaving::kAll || (leaving_ == Leaving::kUnwatched && !peer.watched);
  }
  /// True where the peer has read the goodbye, as far as acknowledgements tell.
  [[nodiscard]] bool is_answered(const LinkPeer& peer) const noexcept {
    return heals_ && peer.windows.sends.posted_goodbye() && !peer.windows.sends.has_unconfirmed();
  }
  /// True once all links that end now have ended.
  [[nodiscard]] bool all_ended() const;

 private:
  void send_news(LinkPeer& peer);
  void send_loss(LinkPeer& peer, std::span<const std::byte> loss);
  void say_goodbye(LinkPeer& peer);

  const Topology& topology_;
  const bool heals_;
  std::map<int, LinkPeer> peers_;
  std::map<int, LostRank> lost_;
  std::set<int> absent_;  // of the tree: who has died, and who had left before
  bool mending_ = false;  // after a death, until mend()
  bool broken_ = false;   // after a death: frames that wait for a link need not be sent
  Leaving leaving_ = Leaving::kNo;
};

// How a rank learns that it is linked with all that it watches, when it starts.

/// The outcome of connecting. Errors name the ranks: kTimeout; kRankFailure where one has ended.
/// Threads: one at a time.
class FirstLinks {
 public:
  /// `rank`: this one.
  explicit FirstLinks(int rank) noexcept : rank_(rank) {}

  /// True until the outcome is known.
  [[nodiscard]] bool under_way() const noexcept { return under_way_; }
  /// A dial has ended without a link.
  void fail(int rank, const Status& why);
  /// The outcome; nothing while connecting goes on.
  std::optional<Status> outcome(const LinkPeers& peers);
  /// The outcome at the end of the time, with some ranks unlinked.
  Status time_out(const LinkPeers& peers);

 private:
  [[nodiscard]] Status error(Code code, const std::string& ranks, int first) const;

  const int rank_;
  bool under_way_ = true;
  Status failure_;
};

}  // namespace ronde::net
