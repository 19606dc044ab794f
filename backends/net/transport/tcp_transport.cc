#include "backends/net/transport/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/net/transport/abort_wait.h"
#include "backends/net/transport/transfer_id.h"
#include "core/base/clock.h"

namespace ronde::net {
namespace {

// A word that the peer sent before the last message arrived comes within a round trip.
constexpr std::chrono::seconds kLongestRoundTrip{1};

}  // namespace

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(TcpTransportArgs args) {
  FileDescriptor wake = make_event();
  if (!wake.valid()) return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(args), std::move(wake)));
}

TcpTransport::TcpTransport(TcpTransportArgs args, FileDescriptor wake)
    : args_(std::move(args)),
      mailbox_(std::move(wake)),
      peers_(static_cast<std::size_t>(args_.members.size())) {
  const MutexLock lock(state_);  // no call of the manager comes before its number is known
  service_ = args_.manager->add({.party = args_.party,
                                 .on_link =
                                     [this](Link link) {
                                       mailbox_.put(Mailbox::Arrival{0, std::move(link)});
                                     },
                                 .on_failure =
                                     [this](int rank, const Status& why) {
                                       mailbox_.put(Mailbox::Failure{0, rank, why});
                                     },
                                 .idle = this});
}

TcpTransport::~TcpTransport() {
  args_.manager->remove(service_);
  if (::getpid() == process_) {
    deliver_rest();
  } else {
    forget();
  }
}

/// A forked child says no goodbye on its parent's connections.
void TcpTransport::forget() {
  for (auto& peer : peers_) (void)peer.release();
  mailbox_.forget();
}

/// A peer may ask to end a connection just before this side closes it. Its word would reset the
/// connection, and what has not been delivered would be lost. The manager knows this no more.
void TcpTransport::deliver_rest() {
  if (!args_.manager->limited()) return;
  const TimePoint limit = now() + kLongestRoundTrip;
  for (Peer* peer : used_) {
    while (broken_.ok() && now() < limit && peer->link.undelivered()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

/// True with `state_` locked. The caller's thread may hold it for long: then a later call counts.
bool TcpTransport::try_state() {
  if (state_.try_lock()) return true;
  args_.manager->settle();
  return false;
}

void TcpTransport::tend() {
  if (!try_state()) return;
  // A wait takes its mail itself: it must see the wake-up.
  if (broken_.ok() && !waits_) broken_ = take_mail();
  if (broken_.ok()) {
    for (Peer* peer : used_) tend(*peer);
  }
  state_.unlock();
}

void TcpTransport::tend(Peer& peer) {
  if (peer.link.busy()) return;
  peer.link.tend();
  peer.link.for_each_idle([&](int fd) { args_.manager->watch(service_, fd); });
}

/// Null where none is idle.
TcpTransport::Peer* TcpTransport::least_recently_used() const {
  Peer* least = nullptr;
  if (!broken_.ok()) return least;
  for (Peer* peer : used_) {
    if (!peer->link.idle()) continue;
    if (least == nullptr || peer->last_use < least->last_use) least = peer;
  }
  return least;
}

TimePoint TcpTransport::least_recent_use() {
  if (!try_state()) return kForever;
  const Peer* least = least_recently_used();
  const TimePoint use = least == nullptr ? kForever : least->last_use;
  state_.unlock();
  return use;
}

void TcpTransport::end_least_recent() {
  if (!try_state()) return;
  if (Peer* least = least_recently_used()) {
    tend(*least);  // it may have received something
    if (least->link.idle()) least->link.ask_to_end();
    tend(*least);
  }
  state_.unlock();
}

/// Comes before a look at the abort token, whose wake-up it may clear.
Status TcpTransport::take_mail() {
  Mailbox::Mail mail = mailbox_.take();
  for (auto& arrival : mail.links) take_link(std::move(arrival.link));
  for (const auto& failure : mail.failures) {
    RONDE_RETURN_IF_ERROR(take_failure(failure.rank, failure.why));
  }
  return {};
}

void TcpTransport::take_link(Link link) {
  const int rank = args_.members.position(link.rank);
  if (!args_.members.is_peer(rank)) return;
  Peer& from = peer(rank);
  if (link.dialed) from.dialing = false;
  from.link.attach(std::move(link));
}

Status TcpTransport::take_failure(int job_rank, const Status& why) {
  const int rank = args_.members.position(job_rank);
  Peer& with = peer(rank);
  with.dialing = false;
  if (!with.link.dials() && !with.link.awaits_peer()) return {};
  return args_.members.not_connected(rank, why);
}

Status TcpTransport::check_peer(int rank) const {
  return told_.ok() ? args_.members.check_peer(rank) : told_;
}

TcpTransport::Peer& TcpTransport::peer(int rank) {
  auto& slot = peers_[static_cast<std::size_t>(rank)];
  if (slot == nullptr) {
    slot = std::make_unique<Peer>(rank, /*dials=*/rank < args_.members.rank());
    used_.push_back(slot.get());
  }
  return *slot;
}

Status TcpTransport::dial(Peer& peer) {
  if (std::exchange(peer.dialing, true)) return {};
  const FailedRank& who = args_.members.who(peer.rank);
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, args_.address(who));
  args_.manager->dial(service_, who.rank, address, now() + args_.timeout);
  return {};
}

/// Dials where that is this rank's part; otherwise the peer will.
Status TcpTransport::connect(Peer& peer) {
  return peer.link.connected() || !peer.link.dials() ? Status() : dial(peer);
}

/// Connects with peers that are late to dial, to learn when they leave.
Status TcpTransport::watch_late_peers() {
  for (Peer* peer : used_) {
    if (!peer->link.awaits_peer() || peer->link.watches()) continue;
    if (now() > peer->busy_since + args_.late_after) RONDE_RETURN_IF_ERROR(dial(*peer));
  }
  return {};
}

TcpTransport::Peer& TcpTransport::use(int rank) {
  Peer& used = peer(rank);
  used.last_use = now();
  if (!used.link.busy()) used.busy_since = used.last_use;
  return used;
}

Result<TransferId> TcpTransport::send(int to, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(to));
  const MutexLock lock(state_);
  Peer& with = use(to);
  const TransferId id = make_transfer_id(false, to, with.link.post_send(data));
  if (broken_.ok()) broken_ = connect(with);
  bool more = false;
  if (broken_.ok()) broken_ = args_.members.judge(to, with.link.progress_sends(more));
  return id;
}

Result<TransferId> TcpTransport::recv(int from, std::span<std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(from));
  const MutexLock lock(state_);
  Peer& with = use(from);
  const TransferId id = make_transfer_id(true, from, with.link.post_receive(data));
  if (broken_.ok()) broken_ = connect(with);
  return id;
}

bool TcpTransport::done(TransferId id) const noexcept {
  const PeerLink& link = peers_[static_cast<std::size_t>(peer_of(id))]->link;
  return is_incoming(id) ? link.received(number_of(id)) : link.sent(number_of(id));
}

Status TcpTransport::wait(TransferId id, const AbortToken& abort) {
  std::vector<pollfd> sleep_on;
  while (!drive(id, abort, sleep_on)) {
    if (!sleep_on.empty()) sleep(sleep_on, abort);
  }
  args_.manager->settle();
  const bool ended_well = [&] {
    const MutexLock lock(state_);
    return done(id);
  }();
  if (ended_well) return {};
  if (told_.ok()) told_ = verdict(abort);
  return told_;
}

/// One step of a wait; true once it is over. Then sleep on `sleep_on`, if on any.
bool TcpTransport::drive(TransferId id, const AbortToken& abort, std::vector<pollfd>& sleep_on) {
  const MutexLock lock(state_);
  sleep_on.clear();
  if (broken_.ok() && !done(id)) broken_ = step(id, abort, sleep_on);
  waits_ = broken_.ok() && !done(id);
  return !waits_;
}

Status TcpTransport::step(TransferId id, const AbortToken& abort, std::vector<pollfd>& sleep_on) {
  RONDE_RETURN_IF_ERROR(take_mail());
  if (abort.poll()) return abort.status();
  bool more = false;
  RONDE_RETURN_IF_ERROR(progress(more));
  if (more || done(id)) return {};
  RONDE_RETURN_IF_ERROR(watch_late_peers());
  list_waits(sleep_on);
  return {};
}

Status TcpTransport::verdict(const AbortToken& abort) {
  const Status broken = [&] {
    const MutexLock lock(state_);
    return broken_;
  }();
  return wait_for_verdict(broken, abort);
}

Status TcpTransport::progress(bool& more) {
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

/// Lists the descriptors of all that may move next; nothing where something may move now.
void TcpTransport::list_waits(std::vector<pollfd>& sleep_on) const {
  const bool unread =
      std::ranges::any_of(used_, [](const Peer* peer) { return peer->link.has_unread(); });
  if (unread) return;
  sleep_on.push_back({mailbox_.wake(), POLLIN, 0});
  for (const Peer* peer : used_) {
    peer->link.for_each_wait([&](int fd, int events) {
      sleep_on.push_back({fd, static_cast<short>(events), 0});
    });
  }
}

void TcpTransport::sleep(std::vector<pollfd>& sleep_on, const AbortToken& abort) const {
  const AbortListening listening(mailbox_.wake(), abort);
  ::poll(sleep_on.data(), sleep_on.size(), kSleepSliceMs);
}

}  // namespace ronde::net
