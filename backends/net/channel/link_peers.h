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

/// One of them.
struct LinkPeer {
  explicit LinkPeer(bool heals) : session(heals) {}

  /// True while messages of the rank may come.
  [[nodiscard]] bool is_heard() const noexcept { return open > 0 || outage; }
  /// Nothing waits for a link with it any more.
  void give_up() {
    outage.reset();
    session.give_up();
  }

  LinkSession session;
  int open = 0;          // links that have begun and not ended; two where both sides dialed
  bool dialing = false;  // no other dial begins meanwhile
  TimePoint dial_limit;
  bool watched = false;   // the ranks at both ends watch each other
  bool held = false;      // its leaving is known, but a link with it may bring its last frames
  bool closing = false;   // it has said that it is about to leave; others hear of it when it has
  bool has_news = false;  // all the news so far is on its way
  std::optional<LinkOutage> outage;  // since when no link works that is needed
};

/// All that the links know of peers. Threads: one at a time.
class LinkPeers {
 public:
  /// `topology` outlives it. `heals`: a link that breaks is an outage, no loss.
  LinkPeers(const Topology& topology, bool heals);

  /// Queues a frame. False if a link has to be dialed first.
  bool send(int to, std::span<const std::byte> frame);

  LinkPeer& of(int rank) { return peers_.try_emplace(rank, heals_).first->second; }

  /// A link has begun. It starts with all the news.
  void begin(TcpLink& link);
  /// Uses an accepted link, or one that was dialed to go on. The peer has received so many
  /// messages.
  void greet(TcpLink& link, std::uint64_t received);
  /// Sends a heartbeat, or confirms what was received, where one is due.
  void beat(TcpLink& link);
  /// Takes a frame or a loss. False if it is known. A peer that keeps many learns of it.
  bool take(TcpLink& from, std::uint64_t number, std::size_t bytes);
  /// A link has ended. Returns how its rank was lost: nothing if that is known, or other links
  /// with it tell, or it heals. `since`: the last time it worked.
  std::optional<LostRank> end(TcpLink& link, Loss how, TimePoint since);

  /// The ranks whose links are to be made again, none of which is dialed.
  [[nodiscard]] std::vector<int> broken() const;
  /// The outages that have ended, by rank, once.
  std::vector<std::pair<int, LinkOutage>> take_ended_outages() {
    return std::exchange(ended_outages_, {});
  }

  /// Notes a loss and passes it on over all links but `from`. False if it is known.
  bool learn(const LostRank& lost, const TcpLink* from);
  [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
  /// True after a death.
  [[nodiscard]] bool job_is_broken() const noexcept { return broken_; }

  /// The ranks that have become neighbours in the tree and have no link.
  std::vector<int> mend();
  /// True while one may lack the news of a death until it is linked.
  [[nodiscard]] bool is_mending() const;

  /// The ranks to be watched that never had a link.
  [[nodiscard]] std::set<int> unlinked() const;

  /// From now on such links end, new ones at once.
  void leave(Leaving part) noexcept { leaving_ = part; }
  /// Says goodbye on a link, if it ends now.
  void part_with(TcpLink& link);
  [[nodiscard]] bool ends_now(const LinkPeer& peer) const noexcept {
    return leaving_ == Leaving::kAll || (leaving_ == Leaving::kUnwatched && !peer.watched);
  }
  /// Answers a goodbye.
  void answer(TcpLink& from);
  /// True once all links that end now have ended.
  [[nodiscard]] bool all_ended() const;

 private:
  void use(TcpLink& link, std::uint64_t received);
  void tell_news(LinkPeer& peer);
  void tell(LinkPeer& peer, std::span<const std::byte> loss);
  void begin_outage(LinkPeer& peer, Loss how, TimePoint since);

  const Topology& topology_;
  const bool heals_;
  std::map<int, LinkPeer> peers_;
  std::map<int, LostRank> lost_;
  std::set<int> absent_;  // of the tree: who has died, and who had left before
  std::vector<std::pair<int, LinkOutage>> ended_outages_;
  bool mending_ = false;  // after a death, until mend()
  bool broken_ = false;   // after a death: frames that wait for a link need not be sent
  Leaving leaving_ = Leaving::kNo;
};

}  // namespace ronde::net
