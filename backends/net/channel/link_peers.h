// The ranks of other hosts as their links know them, and the news of losses. No thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "backends/net/channel/link_session.h"
#include "backends/net/channel/loss.h"
#include "backends/net/channel/tcp_link.h"
#include "backends/net/link/outage.h"
#include "core/base/clock.h"
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
  /// `topology` outlives it. `heals`: a link that breaks is an outage, no loss.
  LinkPeers(const Topology& topology, bool heals);

  /// Queues a frame. False if a link has to be dialed first.
  bool send(int to, std::span<const std::byte> frame);

  /// True once for each dial that is needed: until dialed() no other one begins.
  bool begin_dial(int rank) { return !std::exchange(peer(rank).dialing, true); }
  void dialed(int rank) { peer(rank).dialing = false; }

  /// A link has begun. It starts with all the news.
  void begin(TcpLink& link);
  /// Uses an accepted link, or one that was dialed to go on. The peer has received so many
  /// messages.
  void greet(TcpLink& link, std::uint64_t received);
  /// Sends a heartbeat, or confirms what was received, where one is due.
  void beat(TcpLink& link);
  /// Notes that the peer has received so many. False if so many were never sent.
  bool confirm(int rank, std::uint64_t received) { return peer(rank).session.confirm(received); }
  /// Takes a frame or a loss. False if it is known. A peer that keeps many learns of it.
  bool take(TcpLink& from, std::uint64_t number, std::size_t bytes);
  /// True where a message before this one is missing.
  [[nodiscard]] bool lacks_some(int rank, std::uint64_t number) {
    return peer(rank).session.lacks_some(number);
  }
  /// A link has ended. Returns how its rank was lost: nothing if that is known, or other links
  /// with it tell, or it heals. `since`: the last time it worked.
  std::optional<LostRank> end(TcpLink& link, Loss how, TimePoint since);

  /// The time since a rank has had no link that works; null where it has one, or needs none.
  [[nodiscard]] const LinkOutage* outage(int rank);
  /// The ranks whose links are to be made again, none of which is dialed.
  [[nodiscard]] std::vector<int> broken() const;
  /// The outages that have ended, by rank, once.
  std::vector<std::pair<int, LinkOutage>> take_ended_outages() {
    return std::exchange(ended_outages_, {});
  }
  /// Waits no longer for a link with this rank.
  void give_up(int rank);

  /// Notes a loss and passes it on over all links but `from`. False if it is known.
  bool learn(const LostRank& lost, const TcpLink* from);
  /// True if poll() may tell of a rank's leaving: none of its frames can come any more.
  [[nodiscard]] bool may_report(int rank) { return !peer(rank).held; }
  [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
  /// True if the rank has said that it is about to leave. Others hear of it when it has.
  [[nodiscard]] bool is_closing(int rank) { return peer(rank).closing; }
  /// True after a death.
  [[nodiscard]] bool job_is_broken() const noexcept { return broken_; }

  /// The ranks that have become neighbours in the tree and have no link.
  std::vector<int> mend();
  /// True while one may lack the news of a death until it is linked.
  [[nodiscard]] bool is_mending() const;

  [[nodiscard]] bool needs_link(int rank) { return peer(rank).session.needs_link(); }
  /// True while messages of the rank may come.
  [[nodiscard]] bool is_open(int rank) { return peer(rank).open > 0 || outage(rank) != nullptr; }
  [[nodiscard]] bool is_watched(int rank) { return peer(rank).watched; }
  void watch(int rank) { peer(rank).watched = true; }
  /// The ranks to be watched that never had a link.
  [[nodiscard]] std::set<int> unlinked() const;

  /// From now on such links end, new ones at once.
  void leave(Leaving part) noexcept { leaving_ = part; }
  /// Says goodbye on a link, if it ends now.
  void part_with(TcpLink& link);
  [[nodiscard]] bool ends_now(int rank) { return ends_now(peer(rank)); }
  /// Answers a goodbye.
  void answer(TcpLink& from);
  /// True once all links that end now have ended.
  [[nodiscard]] bool all_ended() const;

 private:
  struct Peer {
    explicit Peer(bool heals) : session(heals) {}

    LinkSession session;
    int open = 0;  // links that have begun and not ended; two where both sides dialed
    bool dialing = false;
    bool watched = false;   // the ranks at both ends watch each other
    bool held = false;      // its leaving is known, but a link with it is open
    bool closing = false;   // it is about to leave: the end of another link is no death
    bool has_news = false;  // all the news so far is on its way
    std::optional<LinkOutage> outage;
  };

  Peer& peer(int rank) { return peers_.try_emplace(rank, heals_).first->second; }
  void use(TcpLink& link, std::uint64_t received);
  void tell_news(Peer& peer);
  void begin_outage(Peer& peer, Loss how, TimePoint since);
  [[nodiscard]] bool ends_now(const Peer& peer) const noexcept {
    return leaving_ == Leaving::kAll || (leaving_ == Leaving::kUnwatched && !peer.watched);
  }

  const Topology& topology_;
  const bool heals_;
  std::map<int, Peer> peers_;
  std::map<int, LostRank> lost_;
  std::set<int> absent_;  // of the tree: who has died, and who had left before
  std::vector<std::pair<int, LinkOutage>> ended_outages_;
  bool mending_ = false;  // after a death, until mend()
  bool broken_ = false;   // after a death: frames that wait for a link need not be sent
  Leaving leaving_ = Leaving::kNo;
};

}  // namespace ronde::net
