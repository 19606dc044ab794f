#include "backends/net/control/link_peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/wire_codec.h"
#include "core/protocol/tree.h"

namespace ronde::net {

void LinkSession::send(FrameKind kind, std::span<const std::byte> bytes) {
  if (over_) return;
  const std::uint64_t number = first_ + kept_.size();
  if (link_ != nullptr) link_->send({kind, number}, bytes);
  if (heals_ || link_ == nullptr) {
    kept_.push_back({kind, {bytes.begin(), bytes.end()}});
  } else {
    ++first_;
  }
}

void LinkSession::use(TcpLink& link, std::uint64_t received) {
  fresh_ = false;
  link_ = &link;
  if (!confirm(received)) return;
  std::uint64_t number = first_;
  for (const Message& message : kept_) link.send({message.kind, number++}, message.bytes);
  if (!heals_) (void)confirm(number);
}

void LinkSession::drop(const TcpLink& link) noexcept {
  if (link_ != &link) return;
  link_ = nullptr;
  over_ = over_ || !heals_;
}

void LinkSession::give_up() noexcept {
  over_ = true;
  kept_.clear();
}

bool LinkSession::confirm(std::uint64_t received) noexcept {
  if (over_) return true;
  if (received > first_ + kept_.size()) return false;
  while (first_ < received) {
    kept_.pop_front();
    ++first_;
  }
  return true;
}

bool LinkSession::take(std::uint64_t number, std::size_t bytes) noexcept {
  if (number != received_) return false;
  ++received_;
  ++unconfirmed_messages_;
  unconfirmed_bytes_ += bytes;
  return true;
}

std::vector<int> watched_ranks(const Topology& topology, const std::set<int>& absent) {
  std::vector<int> present;
  std::vector<int> hosts;
  for (int rank = 0; rank < topology.size(); ++rank) {
    if (absent.contains(rank)) continue;
    present.push_back(rank);
    hosts.push_back(topology.peers[static_cast<std::size_t>(rank)].host_index);
  }
  const TreePlace place = place_in_tree(topology.rank, present, hosts);
  std::vector<int> ranks = place.children;
  if (!place.is_root()) ranks.insert(ranks.begin(), place.parent);
  std::erase_if(ranks, [&](int rank) { return topology.same_host(rank, topology.rank); });
  return ranks;
}

std::optional<LostRank> read_loss(std::span<const std::byte> bytes, const Topology& topology) {
  const auto read = decode_wire<LostRank>(bytes, "loss");
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < topology.size(); };
  if (!read.ok() || !is_rank(read->rank) || !is_rank(read->reporter)) return std::nullopt;
  return read->how <= Loss::kFrozen ? std::optional(*read) : std::nullopt;
}

LinkPeers::LinkPeers(const Topology& topology, bool heals) : topology_(topology), heals_(heals) {
  for (const int rank : watched_ranks(topology, {})) of(rank).watched = true;
}

bool LinkPeers::send(int to, std::span<const std::byte> frame) {
  LinkPeer& peer = of(to);
  send_news(peer);
  peer.session.send(FrameKind::kData, frame);
  return !peer.session.needs_link();
}

/// The first messages to a rank.
void LinkPeers::send_news(LinkPeer& peer) {
  if (std::exchange(peer.has_news, true)) return;
  for (const auto& [rank, lost] : lost_) {
    peer.session.send(FrameKind::kLost, encode_wire(lost));
  }
}

void LinkPeers::begin(TcpLink& link) {
  LinkPeer& peer = of(link.rank());
  ++peer.open;
  const auto known = lost_.find(link.rank());
  if (known != lost_.end()) peer.held = !breaks(known->second.how);
  if (!link.dialed()) return;
  link.send({FrameKind::kBegin, peer.session.confirmation()});
  if (peer.session.is_fresh()) use(link, 0);
}

/// A rank that dials again has found its other links broken. So the newest accepted one counts.
void LinkPeers::greet(TcpLink& link, std::uint64_t received) {
  LinkSession& session = of(link.rank()).session;
  if (heals_ && !link.dialed()) link.send({FrameKind::kBegin, session.confirmation()});
  if (session.needs_link() || (heals_ && !link.dialed())) return use(link, received);
  (void)session.confirm(received);
  if (session.link() != &link) send_goodbye(link);
}

void LinkPeers::use(TcpLink& link, std::uint64_t received) {
  LinkPeer& peer = of(link.rank());
  send_news(peer);
  peer.session.use(link, received);
  peer.outages.end(now());
  send_goodbye(link);
}

void LinkPeers::send_goodbye(TcpLink& link) {
  LinkSession& session = of(link.rank()).session;
  // A link that is about to be used ends once it has carried what the peer lacks.
  if (!ends_now(of(link.rank())) || session.needs_link()) return;
  const bool last = session.link() == &link;
  const FrameKind goodbye = leaving_ == Leaving::kAll ? FrameKind::kGoodbye : FrameKind::kClose;
  link.send({last ? goodbye : FrameKind::kSpare, session.confirmation()});
}

void LinkPeers::answer(TcpLink& from) {
  from.send({FrameKind::kAnswer, of(from.rank()).session.confirmation()});
}

void LinkPeers::beat(TcpLink& link) {
  LinkPeer& peer = of(link.rank());
  if (ends_now(peer) || (!peer.watched && !peer.session.has_unconfirmed())) return;
  link.send(
      {peer.watched ? FrameKind::kHeartbeat : FrameKind::kConfirm, peer.session.confirmation()});
}

bool LinkPeers::take(TcpLink& from, std::uint64_t number, std::size_t bytes) {
  LinkSession& session = of(from.rank()).session;
  const bool is_new = session.take(number, bytes);
  if (session.has_many_unconfirmed()) from.send({FrameKind::kConfirm, session.confirmation()});
  return is_new;
}

std::optional<LostRank> LinkPeers::end(TcpLink& link, TimePoint time) {
  const int rank = link.rank();
  const Loss how = *link.liveness().loss();
  LinkPeer& peer = of(rank);
  const bool last = peer.session.link() == &link;
  --peer.open;
  peer.session.drop(link);
  const bool may_heal = heals_ && (how == Loss::kClosed || how == Loss::kUnreachable);
  if (may_heal && !peer.closing && !is_lost(rank)) {
    begin_outage(peer, link.liveness(), time);
    return std::nullopt;
  }
  const bool leaves =
      link.ended_by() == FrameKind::kClose || link.ended_by() == FrameKind::kGoodbye;
  const bool answered = last && ends_now(peer) && link.ended_by() == FrameKind::kAnswer;
  if (leaves || answered) peer.give_up();  // it reads nothing any more
  if (ends_now(peer)) return std::nullopt;
  if (link.ended_by() == FrameKind::kClose) peer.closing = true;
  const bool spare = link.ended_by() == FrameKind::kSpare && !peer.closing && !peer.held;
  if (spare || (peer.closing && peer.open > 0)) return std::nullopt;
  if (!is_lost(rank)) return LostRank{rank, peer.closing ? Loss::kLeft : how, topology_.rank};
  if (!peer.held || peer.open > 0) return std::nullopt;
  peer.held = false;
  return lost_.at(rank);
}

/// A rank that nobody here watches or lacks needs no link. Others have the news of it.
void LinkPeers::begin_outage(LinkPeer& peer, const PeerLiveness& link, TimePoint time) {
  const bool needed = peer.watched || peer.session.has_kept() || ends_now(peer);
  if (!needed || !peer.session.needs_link() || peer.outages.lasting()) return;
  const bool silent = link.loss() == Loss::kUnreachable;
  peer.outages.begin(silent ? time - link.host_silence() : time, silent ? "fell silent" : "broke");
}

std::vector<int> LinkPeers::broken() const {
  std::vector<int> ranks;
  for (const auto& [rank, peer] : peers_) {
    if (peer.outages.lasting() && !peer.dialing) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<std::pair<int, LinkOutage>> LinkPeers::take_ended_outages() {
  std::vector<std::pair<int, LinkOutage>> ended;
  for (auto& [rank, peer] : peers_) {
    for (LinkOutage& outage : peer.outages.take_ended()) ended.emplace_back(rank, outage);
  }
  return ended;
}

/// News alone is no reason for a link. It goes before the next frame, or with the next link.
void LinkPeers::send_loss(LinkPeer& peer, std::span<const std::byte> loss) {
  const bool waits = peer.session.needs_link() && !peer.session.has_kept();
  if (waits) peer.has_news = false;
  if (!waits) peer.session.send(FrameKind::kLost, loss);
}

bool LinkPeers::learn(const LostRank& lost, const TcpLink* from) {
  if (!lost_.emplace(lost.rank, lost).second) return false;
  const auto bytes = encode_wire(lost);
  for (auto& [rank, peer] : peers_) {
    const bool has_it = from != nullptr && from->rank() == rank;
    if (!peer.has_news || has_it || rank == lost.rank) continue;
    send_loss(peer, bytes);
  }
  LinkPeer& peer = of(lost.rank);
  peer.give_up();
  // A rank that leaves after a death has told its neighbours of it: they need no other way.
  if (breaks(lost.how) || !broken_) absent_.insert(lost.rank);
  peer.held = !breaks(lost.how) && peer.open > 0;
  if (breaks(lost.how)) broken_ = mending_ = true;
  return true;
}

std::vector<int> LinkPeers::mend() {
  mending_ = false;
  if (leaving_ != Leaving::kNo || is_lost(topology_.rank)) return {};
  for (const int rank : watched_ranks(topology_, absent_)) of(rank).watched = true;
  std::vector<int> ranks;
  for (const auto& [rank, peer] : peers_) {
    if (peer.watched && peer.session.needs_link() && !is_lost(rank)) ranks.push_back(rank);
  }
  return ranks;
}

/// A rank that is gone or about to leave needs no link for that.
bool LinkPeers::is_mending() const {
  return mending_ || std::ranges::any_of(peers_, [this](const auto& entry) {
           const auto& [rank, peer] = entry;
           return peer.watched && peer.dialing && !peer.closing && !is_lost(rank);
         });
}

std::set<int> LinkPeers::unlinked() const {
  std::set<int> ranks;
  for (const auto& [rank, peer] : peers_) {
    if (peer.watched && peer.session.is_fresh()) ranks.insert(rank);
  }
  return ranks;
}

bool LinkPeers::all_ended() const {
  return std::ranges::all_of(peers_, [this](const auto& entry) {
    const LinkPeer& peer = entry.second;
    const bool lacks = peer.session.has_kept() || peer.outages.lasting();
    return !ends_now(peer) || (peer.open == 0 && (broken_ || !lacks));
  });
}

void FirstLinks::fail(int rank, const Status& why) {
  failure_ = error(why.code(), fmt::format("{} ({})", rank, why.message()), rank);
}

std::optional<Status> FirstLinks::outcome(const LinkPeers& peers) {
  const std::set<int> missing = peers.unlinked();
  for (const int rank : missing) {
    if (!failure_.ok() || !peers.is_lost(rank)) continue;
    failure_ = error(Code::kRankFailure, fmt::format("{} (it has ended)", rank), rank);
  }
  if (failure_.ok() && !missing.empty()) return std::nullopt;
  under_way_ = false;
  return failure_;
}

Status FirstLinks::time_out(const LinkPeers& peers) {
  under_way_ = false;
  const std::set<int> missing = peers.unlinked();
  return error(Code::kTimeout, fmt::format("{}", fmt::join(missing, ", ")), *missing.begin());
}

Status FirstLinks::error(Code code, const std::string& ranks, int first) const {
  return Status(code, fmt::format("rank {} could not connect with rank {} in time", rank_, ranks))
      .about({first, {}, 0});
}

}  // namespace ronde::net
