#include "backends/net/transport/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/clock.h"

namespace ronde::net {
namespace {

constexpr int kSleepSliceMs = 50;
// When a connection breaks, the control channel soon reports which rank died. It need not be the
// peer, which may only have left because of it.
constexpr std::chrono::milliseconds kVerdictGrace{250};
// A peer that has not dialed for so long may have left the group. A connection to it then shows it.
constexpr std::chrono::seconds kLate{1};
// A word that the peer sent before the last message arrived comes within a round trip.
constexpr std::chrono::seconds kLongestRoundTrip{1};

// An id names direction, peer and the transfer's number between the two.
constexpr TransferId make_id(bool incoming, int peer, std::uint64_t number) noexcept {
  return (number << 25) | (static_cast<TransferId>(peer) << 1) | (incoming ? 1 : 0);
}

/// Makes `wake` readable when a token aborts, as long as it lives.
class AbortListening {
 public:
  AbortListening(int wake, const AbortToken& token)
      : token_(token), id_(token.listen([wake] { notify_event(wake); })) {}
  ~AbortListening() { token_.unlisten(id_); }
  AbortListening(const AbortListening&) = delete;
  AbortListening& operator=(const AbortListening&) = delete;

 private:
  const AbortToken& token_;
  const int id_;
};

}  // namespace

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(TcpTransportArgs args) {
  FileDescriptor wake = make_event();
  if (!wake.valid()) return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(args), std::move(wake)));
}

TcpTransport::TcpTransport(TcpTransportArgs args, FileDescriptor wake)
    : args_(std::move(args)),
      wake_(std::move(wake)),
      size_(static_cast<int>(args_.names.size())),
      peers_(args_.names.size()) {
  const MutexLock lock(state_);  // no call of the manager comes before its number is known
  service_ = args_.manager->add(
      {.party = args_.party,
       .on_link = [this](Link link) { put_link(std::move(link)); },
       .on_failure = [this](int rank, const Status& why) { put_failure(rank, why); },
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
  (void)std::make_unique<Mail>(std::move(mail_)).release();
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

void TcpTransport::put_link(Link link) {
  {
    const MutexLock lock(mutex_);
    mail_.links.push_back(std::move(link));
  }
  has_mail_.store(true);
  notify_event(wake_.get());
}

void TcpTransport::put_failure(int job_rank, const Status& why) {
  {
    const MutexLock lock(mutex_);
    mail_.failures.emplace_back(job_rank, why);
  }
  has_mail_.store(true);
  notify_event(wake_.get());
}

/// Comes before a look at the abort token, whose wake-up it may clear.
Status TcpTransport::take_mail() {
  if (!has_mail_.load(std::memory_order_relaxed)) return {};
  clear_event(wake_.get());
  has_mail_.store(false);
  Mail mail;
  {
    const MutexLock lock(mutex_);
    std::swap(mail, mail_);
  }
  for (Link& link : mail.links) take_link(std::move(link));
  for (const auto& [rank, why] : mail.failures) RONDE_RETURN_IF_ERROR(take_failure(rank, why));
  return {};
}

void TcpTransport::take_link(Link link) {
  const int rank = position(link.rank);
  if (!valid_peer(rank)) return;
  Peer& from = peer(rank);
  if (link.dialed) from.dialing = false;
  if (link.dialed == from.link.dials()) {
    from.link.attach(std::move(link));
  } else {
    from.link.watch(std::move(link));
  }
}

Status TcpTransport::take_failure(int job_rank, const Status& why) {
  const int rank = position(job_rank);
  peer(rank).dialing = false;
  if (why.code() == Code::kRankFailure) {
    return gone(rank, "is gone: it accepts no connection: " + why.message());
  }
  return Status(why.code(),
                fmt::format("rank {} could not connect with {}{}{}{}",
                            args_.names[static_cast<std::size_t>(args_.rank)].rank, name_of(rank),
                            why.code() == Code::kTimeout ? " in time" : "",
                            why.message().empty() ? "" : ": ", why.message()))
      .about(args_.names[static_cast<std::size_t>(rank)]);
}

bool TcpTransport::valid_peer(int rank) const noexcept {
  return rank >= 0 && rank < size() && rank != args_.rank;
}

/// The rank in the group of a rank of the job; -1 where it is not in it.
int TcpTransport::position(int job_rank) const noexcept {
  const auto found =
      std::lower_bound(args_.names.begin(), args_.names.end(), job_rank,
                       [](const FailedRank& name, int rank) { return name.rank < rank; });
  if (found == args_.names.end() || found->rank != job_rank) return -1;
  return static_cast<int>(found - args_.names.begin());
}

TcpTransport::Peer& TcpTransport::peer(int rank) {
  auto& slot = peers_[static_cast<std::size_t>(rank)];
  if (slot == nullptr) {
    slot = std::make_unique<Peer>(rank, /*dials=*/rank < args_.rank);
    used_.push_back(slot.get());
  }
  return *slot;
}

Status TcpTransport::dial(Peer& peer) {
  if (std::exchange(peer.dialing, true)) return {};
  const FailedRank& who = args_.names[static_cast<std::size_t>(peer.rank)];
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, args_.address(who));
  args_.manager->dial(service_, who.rank, address, now() + args_.timeout);
  return {};
}

/// Dials where that is this rank's part; otherwise the peer will.
Status TcpTransport::connect(Peer& peer) {
  if (peer.link.connected()) return {};
  if (peer.link.dials()) return dial(peer);
  if (peer.waits_since == kForever) peer.waits_since = now();
  return {};
}

/// Connects with peers that are late to dial, to learn when they leave.
Status TcpTransport::watch_late_peers() {
  for (Peer* peer : used_) {
    if (peer->link.connected()) peer->waits_since = kForever;
    if (peer->waits_since == kForever || peer->link.watches()) continue;
    if (now() > peer->waits_since + kLate) RONDE_RETURN_IF_ERROR(dial(*peer));
  }
  return {};
}

TcpTransport::Peer& TcpTransport::use(int rank) {
  Peer& used = peer(rank);
  used.last_use = now();
  return used;
}

Result<TransferId> TcpTransport::send(int to, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(told_);
  if (!valid_peer(to)) return Status(Code::kInvalidArgument, fmt::format("no peer {}", to));
  const MutexLock lock(state_);
  Peer& with = use(to);
  const TransferId id = make_id(false, to, with.link.post_send(data));
  if (broken_.ok()) broken_ = connect(with);
  bool moved = false;
  if (broken_.ok()) broken_ = judge(to, with.link.progress_sends(moved));
  return id;
}

Result<TransferId> TcpTransport::recv(int from, std::span<std::byte> data) {
  RONDE_RETURN_IF_ERROR(told_);
  if (!valid_peer(from)) return Status(Code::kInvalidArgument, fmt::format("no peer {}", from));
  const MutexLock lock(state_);
  Peer& with = use(from);
  const TransferId id = make_id(true, from, with.link.post_receive(data));
  if (broken_.ok()) broken_ = connect(with);
  return id;
}

bool TcpTransport::done(TransferId id) const noexcept {
  const Peer& with = *peers_[(id >> 1) & 0xffffff];
  return (id & 1) != 0 ? with.link.received(id >> 25) : with.link.sent(id >> 25);
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
  bool moved = false;
  RONDE_RETURN_IF_ERROR(progress(moved));
  if (moved || done(id)) return {};
  RONDE_RETURN_IF_ERROR(watch_late_peers());
  list_waits(sleep_on);
  return {};
}

Status TcpTransport::verdict(const AbortToken& abort) {
  const Status broken = [&] {
    const MutexLock lock(state_);
    return broken_;
  }();
  if (broken.code() != Code::kRankFailure) return broken;
  const TimePoint deadline = now() + kVerdictGrace;
  while (!abort.poll() && now() < deadline) std::this_thread::sleep_for(kVerdictGrace / 100);
  return abort.aborted() ? abort.status() : broken;
}

Status TcpTransport::progress(bool& moved) {
  for (Peer* peer : used_) {
    if (!peer->link.has_posted()) continue;
    RONDE_RETURN_IF_ERROR(judge(peer->rank, peer->link.progress_receives(moved)));
    RONDE_RETURN_IF_ERROR(judge(peer->rank, peer->link.progress_sends(moved)));
    if (peer->link.busy()) RONDE_RETURN_IF_ERROR(connect(*peer));
  }
  return {};
}

std::string TcpTransport::name_of(int rank) const {
  const FailedRank& name = args_.names[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} (pid {} on {})", name.rank, name.pid, name.host);
}

Status TcpTransport::gone(int rank, std::string_view what) const {
  return Status(Code::kRankFailure, fmt::format("{} {}", name_of(rank), what))
      .about(args_.names[static_cast<std::size_t>(rank)]);
}

/// An error of a peer's link, naming the peer.
Status TcpTransport::judge(int rank, const Status& error) const {
  if (error.ok()) return {};
  if (error.code() == Code::kInternal) {
    return {error.code(), fmt::format("rank {} of the group {}", rank, error.message())};
  }
  const bool refused = error.code() == Code::kInvalidArgument;
  return gone(
      rank, fmt::format("is {}: its connection {}", refused ? "cut off" : "gone", error.message()));
}

/// Lists the descriptors of all that may move next; nothing where something may move now.
void TcpTransport::list_waits(std::vector<pollfd>& sleep_on) const {
  const bool unread =
      std::ranges::any_of(used_, [](const Peer* peer) { return peer->link.has_unread(); });
  if (unread) return;
  sleep_on.push_back({wake_.get(), POLLIN, 0});
  for (const Peer* peer : used_) {
    peer->link.for_each_wait([&](int fd, int events) {
      sleep_on.push_back({fd, static_cast<short>(events), 0});
    });
  }
}

void TcpTransport::sleep(std::vector<pollfd>& sleep_on, const AbortToken& abort) const {
  const AbortListening listening(wake_.get(), abort);
  ::poll(sleep_on.data(), sleep_on.size(), kSleepSliceMs);
}

}  // namespace ronde::net
