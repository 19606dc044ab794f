#include "backends/net/channel/link_peers.h"

#include <algorithm>
#include <utility>

#include "core/base/wire_codec.h"
#include "core/protocol/tree.h"

namespace ronde::net {

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
  if (!read.ok() || read->rank < 0 || read->rank >= topology.size()) return std::nullopt;
  return read->how <= Loss::kFrozen ? std::optional(*read) : std::nullopt;
}

LinkPeers::LinkPeers(const Topology& topology) : topology_(topology) {
  for (const int rank : watched_ranks(topology, {})) watch(rank);
}

bool LinkPeers::send(int to, std::span<const std::byte> frame) {
  Peer& peer = peers_[to];
  if (peer.link != nullptr) {
    peer.link->send(LinkMessage::kFrame, frame);
    return true;
  }
  peer.waiting.emplace_back(frame.begin(), frame.end());
  return false;
}

void LinkPeers::begin(TcpLink& link) {
  Peer& peer = peers_[link.rank()];
  ++peer.open;
  const auto known = lost_.find(link.rank());
  if (known != lost_.end()) peer.held = !breaks(known->second.how);
  if (peer.link == nullptr) {
    peer.link = &link;
    for (const auto& [rank, lost] : lost_) link.send(LinkMessage::kLost, encode_wire(lost));
    for (const auto& frame : std::exchange(peer.waiting, {})) {
      link.send(LinkMessage::kFrame, frame);
    }
  }
  if (ends_now(peer)) link.send(farewell(link), {});
}

std::optional<LostRank> LinkPeers::end(TcpLink& link, Loss how) {
  const int rank = link.rank();
  Peer& peer = peers_[rank];
  --peer.open;
  if (ends_now(peer)) return std::nullopt;  // it has answered the goodbye
  if (link.farewell() == LinkMessage::kClose) peer.closing = true;
  const bool spare = link.farewell() == LinkMessage::kSpare && !peer.closing && !peer.held;
  if (spare || (peer.closing && peer.open > 0)) return std::nullopt;
  if (!is_lost(rank)) return LostRank{rank, peer.closing ? Loss::kLeft : how, topology_.rank};
  if (!peer.held || peer.open > 0) return std::nullopt;
  peer.held = false;
  return lost_.at(rank);
}

bool LinkPeers::learn(const LostRank& lost, const TcpLink* from) {
  if (!lost_.emplace(lost.rank, lost).second) return false;
  const auto bytes = encode_wire(lost);
  for (const auto& [rank, peer] : peers_) {
    if (peer.link == nullptr || peer.link == from || rank == lost.rank) continue;
    peer.link->send(LinkMessage::kLost, bytes);
  }
  Peer& peer = peers_[lost.rank];
  peer.waiting.clear();
  peer.held = !breaks(lost.how) && peer.open > 0;
  if (breaks(lost.how)) broken_ = mending_ = true;
  return true;
}

std::vector<int> LinkPeers::mend() {
  mending_ = false;
  if (leaving_ != Leaving::kNo || is_lost(topology_.rank)) return {};
  std::set<int> absent;
  for (const auto& [rank, lost] : lost_) absent.insert(rank);
  for (const int rank : watched_ranks(topology_, absent)) watch(rank);
  std::vector<int> ranks;
  for (const int rank : unlinked()) {
    if (!is_lost(rank)) ranks.push_back(rank);
  }
  return ranks;
}

bool LinkPeers::is_mending() const {
  return mending_ || std::ranges::any_of(peers_, [](const auto& entry) {
           return entry.second.watched && entry.second.dialing;
         });
}

std::set<int> LinkPeers::unlinked() const {
  std::set<int> ranks;
  for (const auto& [rank, peer] : peers_) {
    if (peer.watched && peer.link == nullptr) ranks.insert(rank);
  }
  return ranks;
}

bool LinkPeers::all_ended() const {
  return std::ranges::all_of(peers_, [this](const auto& entry) {
    const Peer& peer = entry.second;
    return !ends_now(peer) || (peer.open == 0 && (broken_ || peer.waiting.empty()));
  });
}

}  // namespace ronde::net
