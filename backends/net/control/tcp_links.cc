#include "backends/net/control/tcp_links.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ronde::net {
namespace {

constexpr std::chrono::milliseconds kMendLimit{300};
constexpr std::chrono::seconds kInterfaceLimit{2};
constexpr std::chrono::seconds kGoodbyeLimit{1};

bool heals(const LossLimits& limits) { return limits.reconnect > Duration::zero(); }

/// The limits for each link. Connections that heal find silent hosts themselves.
LossLimits limits_of_link(LossLimits limits) {
  if (heals(limits)) limits.link = {};
  return limits;
}

Loss loss_of(Code error) {
  if (error == Code::kUnavailable) return Loss::kClosed;
  return error == Code::kTimeout ? Loss::kUnreachable : Loss::kAltered;
}

}  // namespace

TcpLinks::TcpLinks(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks)
    : topology_(topology),
      args_(std::move(args)),
      limits_(limits),
      hooks_(std::move(hooks)),
      peers_(topology, heals(limits)),
      first_links_(topology.rank) {
  const MutexLock lock(
      mutex_);  // no call of the manager comes before the service's number is known
  service_ = args_.manager->add(
      {.identity = args_.identity,
       .on_link = [this](Link link) { on_link(std::move(link)); },
       .on_failure = [this](int rank, const Status& why) { on_dial_failure(rank, why); },
       .tend = [this](int rank) { return tend(rank); }});
  args_.manager->settle();  // the first beat
}

TcpLinks::~TcpLinks() { close(); }

Status TcpLinks::connect(const WaitLimit& limit) {
  {
    const MutexLock lock(mutex_);
    for (const int rank : peers_.unlinked()) {
      if (rank < topology_.rank) need_link(rank, peers_.of(rank), limit.deadline());
    }
  }
  while (true) {
    clear_event(changed_.get());
    {
      const MutexLock lock(mutex_);
      if (const auto outcome = first_links_.outcome(peers_)) return *outcome;
    }
    if (wait_for(changed_.get(), POLLIN, limit)) continue;
    const MutexLock lock(mutex_);
    return first_links_.time_out(peers_);
  }
}

void TcpLinks::send(int to, std::span<const std::byte> frame) {
  const MutexLock lock(mutex_);
  LinkPeer& peer = peers_.of(to);
  if (!peers_.send(to, frame)) need_link(to, peer, now() + args_.timeout);
  flush(to, peer);
}

/// Sends what the socket takes now. The manager's thread sends the rest, and judges what is broken.
void TcpLinks::flush(int rank, LinkPeer& peer) {
  if (peer.connection.exchange() == nullptr) return;
  bool more = false;
  peer.broken = peer.progress(more, /*sends=*/true);
  if (!peer.broken.ok() || peer.connection.exchange() == nullptr) {
    unfinished_.push_back(rank);
    args_.manager->settle();
  } else if (peer.connection.exchange()->has_output(true)) {
    watch(rank, peer);
  }
}

void TcpLinks::watch(int rank, const LinkPeer& peer) {
  const auto service = service_;
  peer.connection.for_each_wait(
      [&](int fd, int events) { args_.manager->watch(service, fd, events, rank); });
}

// Links.

/// An accepted link with a higher rank asks this one to dial.
void TcpLinks::on_link(Link link) {
  const int rank = link.rank;
  {
    const MutexLock lock(mutex_);
    LinkPeer& peer = peers_.of(rank);
    const bool asks = link.dialed != (rank < topology_.rank);
    if (link.dialed) peer.dialing = false;
    if (link.dialed && peer.connection.works()) return;  // it has come back meanwhile
    peer.connection.attach(std::move(link));
    if (asks) peer.link_by = now() + args_.timeout;
    serve(rank);
    dial_where_needed(rank, peer);
  }
  publish();
}

/// A process that refuses a link has ended. If it has died, the news is faster than this.
void TcpLinks::on_dial_failure(int rank, const Status& why) {
  {
    const MutexLock lock(mutex_);
    LinkPeer& peer = peers_.of(rank);
    peer.dialing = false;
    notify();
    const bool has_time = why.code() == Code::kTimeout && now() < peer.link_by;
    if (has_time && !peer.connection.outage()) ++interface_;
    if (has_time) dial_where_needed(rank, peer);
    if (!has_time && peer.needs_link()) on_no_link(rank, peer, why);
  }
  publish();
}

/// Dials until `deadline`, or to mend an outage until that lasts too long.
void TcpLinks::need_link(int rank, LinkPeer& peer, TimePoint deadline) {
  peer.link_by = std::min(peer.link_by, deadline);
  dial_where_needed(rank, peer);
}

/// Does nothing while a link is on its way.
void TcpLinks::dial_where_needed(int rank, LinkPeer& peer) {
  const auto& outage = peer.connection.outage();
  if (outage) peer.link_by = outage->began + limits_.reconnect;
  if (peer.connection.works()) peer.link_by = kForever;
  if (peer.link_by == kForever || peer.dialing) return;
  if (now() >= peer.link_by) return on_no_link(rank, peer, {Code::kTimeout, "no connection came"});
  if (!heals(limits_) && peer.connection.is_refused()) {
    return on_no_link(rank, peer, {Code::kRankFailure, "it has left"});
  }
  if (!peer.connection.lacks_connection()) return;
  peer.dialing = true;
  if (outage) ++interface_;
  const std::size_t interfaces = heals(limits_) ? args_.routes.count() : 1;
  TimePoint deadline = peer.link_by;
  if (interfaces > 1) deadline = std::min<TimePoint>(deadline, now() + kInterfaceLimit);
  args_.manager->dial(service_, rank, args_.routes.to(rank, interface_ % interfaces), deadline);
}

void TcpLinks::on_no_link(int rank, LinkPeer& peer, const Status& why) {
  const bool broke = peer.connection.outage().has_value();
  peer.link_by = kForever;
  notify();
  if (peers_.ends_now(peer) || peer.over) return peer.give_up();
  if (first_links_.under_way()) return first_links_.fail(rank, why);
  const Loss ended = broke ? Loss::kClosed : Loss::kLeft;
  lose(rank, why.code() == Code::kRankFailure ? ended : Loss::kUnreachable);
}

// In the manager's thread.

TimePoint TcpLinks::tend(int rank) {
  TimePoint next;
  {
    const MutexLock lock(mutex_);
    for (const int each : std::exchange(unfinished_, {})) serve(each);
    if (rank >= 0) serve(rank);
    if (const TimePoint time = now(); time >= next_beat_) beat(time);
    next = unfinished_.empty() ? next_beat_ : TimePoint();
  }
  publish();
  return next;
}

/// Calls the hooks without the lock.
void TcpLinks::publish() {
  News news;
  bool arrived = false;
  {
    const MutexLock lock(mutex_);
    news = std::exchange(news_, {});
    arrived = !news.items.empty();
    if (arrived) items_.put(std::move(news.items));
  }
  if (arrived) hooks_.frame_arrived();
  for (const LostRank& lost : news.lost) hooks_.rank_lost(lost);
  for (const auto& [rank, peer] : news.changed) hooks_.rank_changed(rank, peer);
  for (const auto& [rank, outage] : news.healed) hooks_.link_healed(rank, outage);
}

/// One turn, so that no peer holds the lock for long.
void TcpLinks::serve(int rank) {
  LinkPeer& peer = peers_.of(rank);
  if (turn(rank, peer)) unfinished_.push_back(rank);
  watch(rank, peer);
}

/// True where more may move without an event.
bool TcpLinks::turn(int rank, LinkPeer& peer) {
  bool more = false;
  const Status status = peer.progress(more);
  if (peer.attempt != peer.connection.attempt()) on_begin(rank, peer);
  while (auto message = peer.windows.receives.take()) on_message(rank, std::move(*message));
  if (peer.connection.heard_heartbeat()) peer.watched = true;
  if (peer.windows.receives.peer_left() && !std::exchange(peer.left, true)) on_goodbye(rank, peer);
  if (!status.ok()) {
    on_end(rank, peer, loss_of(status.code()));
  } else if (peers_.is_answered(peer)) {
    peer.give_up();
    peer.connection.close();
    notify();
  } else if (peer.left && !peer.connection.answers()) {
    peer.connection.close();
  }
  if (peer.connection.outage() && !peers_.needs(peer)) peer.connection.forget_outage();
  if (peer.held && !peer.connection.may_deliver()) release(rank, peer);
  if (rank < topology_.rank && !peer.connection.is_slowed()) dial_where_needed(rank, peer);
  return more || peer.connection.has_unread();
}

void TcpLinks::on_begin(int rank, LinkPeer& peer) {
  peer.attempt = peer.connection.attempt();
  peer.liveness = PeerLiveness(limits_of_link(limits_));
  peer.link_by = kForever;
  peers_.begin(peer);
  flush(rank, peer);
  notify();
}

void TcpLinks::on_message(int from, ReceiveWindow::Message message) {
  if (message.kind == FrameKind::kData) {
    news_.items.push_back({.from = from, .frame = std::move(message.bytes), .lost = {}});
  } else if (const auto lost = read_loss(message.bytes, topology_)) {
    learn(*lost, from);
  }
}

/// A rank that is about to leave is no news for others yet.
void TcpLinks::on_goodbye(int rank, LinkPeer& peer) {
  peer.closing = peer.windows.receives.goodbye() == FrameKind::kClose;
  peer.give_up();
  notify();
  if (peers_.is_lost(rank)) {
    if (peer.held) release(rank, peer);
  } else if (peer.closing) {
    news_.items.push_back(
        {.from = rank, .frame = {}, .lost = LostRank{rank, Loss::kLeft, topology_.rank}});
  } else {
    lose(rank, Loss::kLeft);
  }
}

/// A link has ended that does not heal.
void TcpLinks::on_end(int rank, LinkPeer& peer, Loss how) {
  peer.connection.close();
  notify();
  if (peer.left || peers_.is_lost(rank)) return;
  const bool leaves = peers_.ends_now(peer);  // the end is the answer
  peer.give_up();
  if (!leaves) lose(rank, how);
}

/// The rank has left, and its last frame is here.
void TcpLinks::release(int rank, LinkPeer& peer) {
  peer.held = false;
  report(peers_.loss(rank));
}

void TcpLinks::beat(TimePoint time) {
  next_beat_ = time + kBeatInterval;
  if (members_changed_) mend_tree();
  for (auto& [rank, peer] : peers_.all()) look_at(rank, peer, time);
}

void TcpLinks::look_at(int rank, LinkPeer& peer, TimePoint time) {
  if (peer.look(time)) {
    if (const auto& loss = peer.liveness.loss()) {
      on_end(rank, peer, *loss);
    } else {
      news_.changed.emplace_back(rank, peer.liveness);
    }
  }
  if (!peers_.ends_now(peer)) peer.connection.beat(peer.watched);
  serve(rank);
  dial_where_needed(rank, peer);
  for (LinkOutage& outage : peer.connection.take_ended_outages()) {
    news_.healed.emplace_back(rank, std::move(outage));
  }
}

// Losses.

/// This rank has found that. A host that does not answer takes all its ranks along.
void TcpLinks::lose(int rank, Loss how) {
  if (how != Loss::kUnreachable) return learn({rank, how, topology_.rank});
  for (const int each : topology_.host_ranks(rank)) learn({each, how, topology_.rank});
}

void TcpLinks::learn(const LostRank& lost, int from) {
  if (spread(lost, from) && !peers_.of(lost.rank).held) report(lost);
}

void TcpLinks::pass_on(const LostRank& lost) {
  const MutexLock lock(mutex_);
  spread(lost, -1);
}

/// False if the loss is known.
bool TcpLinks::spread(const LostRank& lost, int from) {
  if (!peers_.learn(lost, from)) return false;
  members_changed_ = true;
  notify();
  for (auto& [rank, peer] : peers_.all()) flush(rank, peer);
  if (breaks(lost.how)) mend_tree();
  return true;
}

void TcpLinks::report(const LostRank& lost) {
  news_.items.push_back({.from = lost.rank, .frame = {}, .lost = lost});
  news_.lost.push_back(lost);
}

/// Makes links with those that are to be watched now and have none.
void TcpLinks::mend_tree() {
  members_changed_ = false;
  for (const int rank : peers_.mend()) need_link(rank, peers_.of(rank), now() + args_.timeout);
  notify();
}

/// Ends waits for changes of links.
void TcpLinks::notify() {
  links_changed_.notify_all();
  notify_event(changed_.get());
}

/// Ends those links, each by a goodbye and its answer. Peers that need another link for that have
/// the time of an outage.
void TcpLinks::leave(Leaving part) {
  peers_.leave(part);
  for (auto& [rank, peer] : peers_.all()) flush(rank, peer);
  const TimePoint start = now();
  const auto deadline = [&]() RONDE_REQUIRES(mutex_) {
    return start + (peers_.job_is_broken() ? kGoodbyeLimit
                                           : std::max<Duration>(kGoodbyeLimit, limits_.reconnect));
  };
  while (!peers_.all_ended() && links_changed_.wait_until(mutex_, deadline())) {
  }
}

void TcpLinks::close() noexcept {
  if (::getpid() != process_ || std::exchange(closed_, true)) return;
  ConnectionManager::ServiceId service = 0;
  {
    const MutexLock lock(mutex_);
    const TimePoint deadline = now() + kMendLimit;
    while (peers_.is_mending() && links_changed_.wait_until(mutex_, deadline)) {
    }
    // In this order: the news that this rank has left spreads from those that watch it. By then
    // all others have its last frames.
    leave(Leaving::kUnwatched);
    leave(Leaving::kAll);
    service = service_;
  }
  args_.manager->remove(service);
  const MutexLock lock(mutex_);
  for (auto& [rank, peer] : peers_.all()) peer.connection.close();
}

}  // namespace ronde::net
