#include "backends/net/transport/tcp_peers.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "backends/net/transport/transfer_id.h"

namespace ronde::net {

TcpPeers::Peer& TcpPeers::peer(int rank) {
  auto& slot = peers_[static_cast<std::size_t>(rank)];
  if (slot == nullptr) {
    slot = std::make_unique<Peer>(rank, /*dials=*/rank < args_.members.rank());
    used_.push_back(slot.get());
  }
  return *slot;
}

PeerLink& TcpPeers::use(int rank) {
  Peer& used = peer(rank);
  used.last_use = now();
  if (!used.link.busy()) used.busy_since = used.last_use;
  return used.link;
}

bool TcpPeers::done(TransferId id) const noexcept {
  const PeerLink& link = peers_[static_cast<std::size_t>(peer_of(id))]->link;
  return is_incoming(id) ? link.received(number_of(id)) : link.sent(number_of(id));
}

Status TcpPeers::dial(Peer& peer) {
  if (std::exchange(peer.dialing, true)) return {};
  const FailedRank& who = args_.members.who(peer.rank);
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, args_.address(who));
  args_.manager->dial(service_, who.rank, address, now() + args_.timeout);
  return {};
}

Status TcpPeers::connect(Peer& peer) {
  return peer.link.connected() || !peer.link.dials() ? Status() : dial(peer);
}

Status TcpPeers::send(int rank) {
  RONDE_RETURN_IF_ERROR(connect(rank));
  bool more = false;
  return args_.members.judge(rank, peer(rank).link.progress_sends(more));
}

void TcpPeers::take_link(Link link) {
  const int rank = args_.members.position(link.rank);
  if (!args_.members.is_peer(rank)) return;
  Peer& from = peer(rank);
  if (link.dialed) from.dialing = false;
  from.link.attach(std::move(link));
}

Status TcpPeers::take_failure(int job_rank, const Status& why) {
  const int rank = args_.members.position(job_rank);
  Peer& with = peer(rank);
  with.dialing = false;
  if (!with.link.dials() && !with.link.awaits_peer()) return {};
  return args_.members.not_connected(rank, why);
}

Status TcpPeers::progress(bool& more) {
  for (Peer* peer : used_) {
    PeerLink& link = peer->link;
    if (link.busy()) {
      RONDE_RETURN_IF_ERROR(args_.members.judge(peer->rank, link.progress_receives(more)));
    }
    if (link.busy()) {
      RONDE_RETURN_IF_ERROR(args_.members.judge(peer->rank, link.progress_sends(more)));
      RONDE_RETURN_IF_ERROR(connect(*peer));
    } else if (link.has_posted()) {
      link.tend();  // words alone: the peer may have left
    }
  }
  return {};
}

Status TcpPeers::watch_late() {
  for (Peer* peer : used_) {
    if (!peer->link.awaits_peer() || peer->link.watches()) continue;
    if (now() > peer->busy_since + args_.late_after) RONDE_RETURN_IF_ERROR(dial(*peer));
  }
  return {};
}

bool TcpPeers::has_unread() const noexcept {
  return std::ranges::any_of(used_, [](const Peer* peer) { return peer->link.has_unread(); });
}

void TcpPeers::tend() {
  for (Peer* peer : used_) tend(*peer);
}

void TcpPeers::tend(Peer& peer) {
  if (peer.link.busy()) return;
  peer.link.tend();
  peer.link.for_each_idle([&](int fd) { args_.manager->watch(service_, fd); });
}

/// Null where none is idle.
TcpPeers::Peer* TcpPeers::least_recently_used() const noexcept {
  Peer* least = nullptr;
  for (Peer* peer : used_) {
    if (!peer->link.idle()) continue;
    if (least == nullptr || peer->last_use < least->last_use) least = peer;
  }
  return least;
}

TimePoint TcpPeers::least_recent_use() const noexcept {
  const Peer* least = least_recently_used();
  return least == nullptr ? kForever : least->last_use;
}

void TcpPeers::end_least_recent() {
  Peer* least = least_recently_used();
  if (least == nullptr) return;
  tend(*least);  // it may have received something
  if (least->link.idle()) least->link.ask_to_end();
  tend(*least);
}

void TcpPeers::wait_until_delivered(TimePoint limit) {
  for (Peer* peer : used_) {
    while (now() < limit && peer->link.undelivered()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void TcpPeers::forget() {
  for (auto& peer : peers_) (void)peer.release();
}

}  // namespace ronde::net
