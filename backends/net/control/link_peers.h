// The numbered messages between this rank and one other, over one link after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/net/connection/outage.h"
#include "backends/net/control/losses.h"
#include "backends/net/control/peer_liveness.h"
#include "backends/net/control/tcp_link.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/topology.h"

namespace ronde::net {

/// Counts what is sent and received, and keeps what the peer may lack. No clock. Threads: one at a
/// time.
class LinkSession {
 public:
  /// `heals`: messages are kept until the peer has confirmed them, so that another link can go on.
  explicit LinkSession(bool heals) noexcept : heals_(heals) {}

  /// Sends a frame or a loss, or keeps it for the next link.
  void send(FrameKind kind, std::span<const std::byte> bytes);
  /// Goes on over this link. The peer has received so many messages.
  void use(TcpLink& link, std::uint64_t received);
  /// The link has ended. Without healing no other one follows.
  void drop(const TcpLink& link) noexcept;
  /// Nothing is sent any more.
  void give_up() noexcept;

  /// Messages go here; null where there is none.
  [[nodiscard]] TcpLink* link() const noexcept { return link_; }
  /// True where a link is to be made for messages.
  [[nodiscard]] bool needs_link() const noexcept { return link_ == nullptr && !over_; }
  /// True before the first link.
  [[nodiscard]] bool is_fresh() const noexcept { return fresh_; }
  /// True while the peer may lack messages. Without healing: while they wait for a link.
  [[nodiscard]] bool has_kept() const noexcept { return !kept_.empty(); }

  /// Notes that the peer has received so many. False if so many were never sent.
  bool confirm(std::uint64_t received) noexcept;
  /// Takes the number of a message that has arrived. False if it is known already.
  bool take(std::uint64_t number, std::size_t bytes) noexcept;
  /// True where a message before this one is missing.
  [[nodiscard]] bool is_ahead(std::uint64_t number) const noexcept { return number > received_; }

  /// True if the peer keeps messages that this rank has. `many`: it is time to tell.
  [[nodiscard]] bool has_unconfirmed() const noexcept {
    return heals_ && unconfirmed_messages_ > 0;
  }
  [[nodiscard]] bool has_many_unconfirmed() const noexcept {
    return heals_ && unconfirmed_bytes_ > kManyBytes;
  }
  /// How many messages have been received, for the peer.
  [[nodiscard]] std::uint64_t confirmation() noexcept {
    unconfirmed_messages_ = unconfirmed_bytes_ = 0;
    return received_;
  }

 private:
  struct Message {
    FrameKind kind{};
    std::vector<std::byte> bytes;
  };
  static constexpr std::size_t kManyBytes = std::size_t{256} << 10;

  const bool heals_;
  TcpLink* link_ = nullptr;
  bool fresh_ = true;
  bool over_ = false;
  std::deque<Message> kept_;
  std::uint64_t first_ = 0;  // the number of the first kept message, or of the next one
  std::uint64_t received_ = 0;
  std::size_t unconfirmed_messages_ = 0;
  std::size_t unconfirmed_bytes_ = 0;
};

// The ranks of other hosts as their links know them, and the news of losses. No thread.

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
  [[nodiscard]] bool may_deliver() const noexcept { return open > 0 || outages.lasting(); }
  /// Nothing waits for a link with it any more.
  void give_up() {
    outages.drop();
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
  OutageLog outages;      // of the time in which no link works that is needed
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
  /// A link has ended, now. Returns how its rank was lost: nothing if that is known, or other links
  /// with it tell, or it heals.
  std::optional<LostRank> end(TcpLink& link, TimePoint time);

  /// The ranks whose links are to be made again, none of which is dialed.
  [[nodiscard]] std::vector<int> broken() const;
  /// The outages that have ended, with their ranks, once.
  std::vector<std::pair<int, LinkOutage>> take_ended_outages();

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
  void send_goodbye(TcpLink& link);
  [[nodiscard]] bool ends_now(const LinkPeer& peer) const noexcept {
    return leaving_ == Leaving::kAll || (leaving_ == Leaving::kUnwatched && !peer.watched);
  }
  /// Answers a goodbye.
  void answer(TcpLink& from);
  /// True once all links that end now have ended.
  [[nodiscard]] bool all_ended() const;

 private:
  void use(TcpLink& link, std::uint64_t received);
  void send_news(LinkPeer& peer);
  void send_loss(LinkPeer& peer, std::span<const std::byte> loss);
  void begin_outage(LinkPeer& peer, const PeerLiveness& link, TimePoint time);

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
