// The ranks of other hosts as their links know them, and the news of losses. No thread, no clock.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "backends/net/channel/loss.h"
#include "backends/net/channel/tcp_link.h"
#include "core/ports/topology.h"

namespace ronde::net {

/// The ranks of other hosts that this rank watches, and that watch it: its place in the tree of
/// core/protocol/tree.h over all ranks but `absent`. Empty if it leads no host. Ascending.
std::vector<int> watched_ranks(const Topology& topology, const std::set<int>& absent);

/// Reads the news of a loss; nothing where it makes no sense.
std::optional<LostRank> read_loss(std::span<const std::byte> bytes, const Topology& topology);

/// The part of the links that end now, as this rank leaves.
enum class Leaving : std::uint8_t { kNo, kUnwatched, kAll };

/// All that TcpLinks knows of peers. Threads: one at a time.
class LinkPeers {
 public:
  /// `topology` outlives it.
  explicit LinkPeers(const Topology& topology);

  /// Queues a frame. False if a link has to be dialed first.
  bool send(int to, std::span<const std::byte> frame);

  /// True once for each dial that is needed: until dialed() no other one begins.
  bool begin_dial(int rank) { return !std::exchange(peers_[rank].dialing, true); }
  void dialed(int rank) { peers_[rank].dialing = false; }

  /// Uses a link that has begun. It starts with all the news.
  void begin(TcpLink& link);
  /// A link has ended. Returns how its rank was lost: nothing if that is known, or other links
  /// with it tell.
  std::optional<LostRank> end(TcpLink& link, Loss how);

  /// Notes a loss and passes it on over all links but `from`. False if it is known.
  bool learn(const LostRank& lost, const TcpLink* from);
  /// True if poll() may tell of a rank's leaving: none of its frames can come any more.
  [[nodiscard]] bool may_report(int rank) { return !peers_[rank].held; }
  [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
  /// True if the rank has said that it is about to leave. Others hear of it when it has.
  [[nodiscard]] bool is_closing(int rank) { return peers_[rank].closing; }

  /// The ranks that have become neighbours in the tree and have no link.
  std::vector<int> mend();
  /// True while one may lack the news of a death until it is linked.
  [[nodiscard]] bool is_mending() const;

  [[nodiscard]] bool has_link(int rank) { return peers_[rank].link != nullptr; }
  [[nodiscard]] bool is_open(int rank) { return peers_[rank].open > 0; }
  [[nodiscard]] bool is_watched(int rank) { return peers_[rank].watched; }
  void watch(int rank) { peers_[rank].watched = true; }
  /// The ranks to be watched that have no link.
  [[nodiscard]] std::set<int> unlinked() const;

  /// From now on such links end, new ones at once.
  void leave(Leaving part) noexcept { leaving_ = part; }
  /// The last message of a link that ends now.
  [[nodiscard]] LinkMessage farewell(const TcpLink& link) {
    if (peers_[link.rank()].link != &link) return LinkMessage::kSpare;
    return leaving_ == Leaving::kAll ? LinkMessage::kGoodbye : LinkMessage::kClose;
  }
  [[nodiscard]] bool ends_now(int rank) { return ends_now(peers_[rank]); }
  /// True once all links that end now have ended.
  [[nodiscard]] bool all_ended() const;

 private:
  struct Peer {
    TcpLink* link = nullptr;  // frames to it go here; the first that began
    int open = 0;             // links that have begun and not ended; two where both sides dialed
    bool dialing = false;
    bool watched = false;  // the ranks at both ends watch each other
    bool held = false;     // its leaving is known, but a link with it is open
    bool closing = false;  // it is about to leave: the end of another link is no death
    std::vector<std::vector<std::byte>> waiting;  // frames, for a link
  };

  [[nodiscard]] bool ends_now(const Peer& peer) const noexcept {
    return leaving_ == Leaving::kAll || (leaving_ == Leaving::kUnwatched && !peer.watched);
  }

  const Topology& topology_;
  std::map<int, Peer> peers_;
  std::map<int, LostRank> lost_;
  bool mending_ = false;  // after a death, until mend()
  bool broken_ = false;   // after a death: frames that wait for a link need not be sent
  Leaving leaving_ = Leaving::kNo;
};

}  // namespace ronde::net
