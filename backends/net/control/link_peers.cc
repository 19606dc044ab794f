#include "backends/net/control/link_peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/wire_codec.h"
#include "core/protocol/tree.h"

namespace ronde::net {

void LinkPeer::post(FrameKind kind, std::span<const std::byte> bytes) {
  if (over || windows.sends.posted_goodbye()) return;
  windows.sends.post(frames.emplace_back(bytes.begin(), bytes.end()), kind);
}

Status LinkPeer::progress(bool& more, bool sends) {
  Status status = std::exchange(broken, {});
  if (status.ok()) status = sends ? connection.progress_sends(more) : connection.progress(more);
  for (; !frames.empty() && windows.sends.sent(written); ++written) frames.pop_front();
  return status;
}

bool LinkPeer::look(TimePoint time) {
  connection.look(time);
  const ChunkExchange* const link = connection.exchange();
  if (link == nullptr) return false;
  const TcpProgress is = tcp_progress(link->fd());
  // Input from the peer proves nothing if only our own direction is cut.
  if (shows_life(std::exchange(progress_seen, is), is)) ++answers;
  LifeSigns signs{.answers = answers};
  if (watched) signs.beats = link->signs_of_life();
  return liveness.look(signs, time);
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
  peer.post(FrameKind::kData, frame);
  return !peer.needs_link();
}

/// The first messages to a rank.
void LinkPeers::send_news(LinkPeer& peer) {
  if (std::exchange(peer.has_news, true)) return;
  for (const auto& [rank, lost] : lost_) peer.post(FrameKind::kLost, encode_wire(lost));
}

void LinkPeers::begin(LinkPeer& peer) {
  send_news(peer);
  if (ends_now(peer)) say_goodbye(peer);
}

/// Nothing follows, so it comes after the news.
void LinkPeers::say_goodbye(LinkPeer& peer) {
  send_news(peer);
  if (peer.over || peer.windows.sends.posted_goodbye()) return;
  peer.windows.sends.post_goodbye(leaving_ == Leaving::kAll ? FrameKind::kLast : FrameKind::kClose);
}

/// A rank that has no link and lacks nothing needs no goodbye.
void LinkPeers::leave(Leaving part) {
  leaving_ = part;
  for (auto& [rank, peer] : peers_) {
    const bool linked = peer.connection.exchange() != nullptr || peer.connection.outage();
    if (ends_now(peer) && (linked || peer.has_kept())) say_goodbye(peer);
  }
}

/// News alone is no reason for a link. It goes before the next frame, or with the next link.
void LinkPeers::send_loss(LinkPeer& peer, std::span<const std::byte> loss) {
  const bool waits = peer.needs_link() && !peer.has_kept();
  if (waits) peer.has_news = false;
  if (!waits) peer.post(FrameKind::kLost, loss);
}

bool LinkPeers::learn(const LostRank& lost, int from) {
  if (!lost_.emplace(lost.rank, lost).second) return false;
  const auto bytes = encode_wire(lost);
  for (auto& [rank, peer] : peers_) {
    if (peer.has_news && rank != from && rank != lost.rank) send_loss(peer, bytes);
  }
  LinkPeer& peer = of(lost.rank);
  peer.give_up();
  peer.held = !breaks(lost.how) && !peer.left && peer.connection.may_deliver();
  // A rank that leaves after a death has told its neighbours of it: they need no other way.
  if (breaks(lost.how) || !broken_) absent_.insert(lost.rank);
  if (breaks(lost.how)) broken_ = mending_ = true;
  return true;
}

std::vector<int> LinkPeers::mend() {
  mending_ = false;
  if (leaving_ != Leaving::kNo || is_lost(topology_.rank)) return {};
  for (const int rank : watched_ranks(topology_, absent_)) of(rank).watched = true;
  std::vector<int> ranks;
  for (const auto& [rank, peer] : peers_) {
    if (peer.watched && peer.needs_link() && !is_lost(rank)) ranks.push_back(rank);
  }
  return ranks;
}

/// A rank that is gone or about to leave needs no link for that.
bool LinkPeers::is_mending() const {
  return mending_ || std::ranges::any_of(peers_, [this](const auto& entry) {
           const auto& [rank, peer] = entry;
           return peer.watched && peer.link_by != kForever && !peer.closing && !is_lost(rank);
         });
}

std::set<int> LinkPeers::unlinked() const {
  std::set<int> ranks;
  for (const auto& [rank, peer] : peers_) {
    if (peer.watched && !peer.connection.was_connected()) ranks.insert(rank);
  }
  return ranks;
}

bool LinkPeers::all_ended() const {
  return std::ranges::all_of(peers_, [this](const auto& entry) {
    const LinkPeer& peer = entry.second;
    const bool lacks = peer.has_kept() || peer.connection.outage();
    const bool ended = peer.connection.exchange() == nullptr && (broken_ || !lacks);
    return peer.over || ended || !ends_now(peer);
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
