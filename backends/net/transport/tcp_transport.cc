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
    : args_(std::move(args)), wake_(std::move(wake)), peers_(args_.names.size()) {
  service_ = args_.manager->add(
      {.party = args_.party,
       .on_link = [this](Link link) { put_link(std::move(link)); },
       .on_failure = [this](int rank, const Status& why) { put_failure(rank, why); }});
}

TcpTransport::~TcpTransport() {
  args_.manager->remove(service_);
  if (::getpid() == process_) return;
  // A forked child says no goodbye on its parent's connections.
  for (auto& peer : peers_) (void)peer.release();
  (void)std::make_unique<Mail>(std::move(mail_)).release();
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

Result<TransferId> TcpTransport::send(int to, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(told_);
  if (!valid_peer(to)) return Status(Code::kInvalidArgument, fmt::format("no peer {}", to));
  Peer& with = peer(to);
  const TransferId id = make_id(false, to, with.link.post_send(data));
  if (broken_.ok()) broken_ = connect(with);
  bool moved = false;
  if (broken_.ok()) broken_ = judge(to, with.link.progress_sends(moved));
  return id;
}

Result<TransferId> TcpTransport::recv(int from, std::span<std::byte> data) {
  RONDE_RETURN_IF_ERROR(told_);
  if (!valid_peer(from)) return Status(Code::kInvalidArgument, fmt::format("no peer {}", from));
  Peer& with = peer(from);
  const TransferId id = make_id(true, from, with.link.post_receive(data));
  if (broken_.ok()) broken_ = connect(with);
  return id;
}

bool TcpTransport::done(TransferId id) const noexcept {
  const Peer& with = *peers_[(id >> 1) & 0xffffff];
  return (id & 1) != 0 ? with.link.received(id >> 25) : with.link.sent(id >> 25);
}

Status TcpTransport::wait(TransferId id, const AbortToken& abort) {
  while (broken_.ok() && !done(id)) broken_ = step(id, abort);
  if (done(id)) return {};
  if (told_.ok()) told_ = broken_.code() == Code::kRankFailure ? verdict(abort) : broken_;
  return told_;
}

Status TcpTransport::step(TransferId id, const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(take_mail());
  if (abort.poll()) return abort.status();
  bool moved = false;
  RONDE_RETURN_IF_ERROR(progress(moved));
  if (moved || done(id)) return {};
  RONDE_RETURN_IF_ERROR(watch_late_peers());
  sleep(abort);
  return {};
}

Status TcpTransport::verdict(const AbortToken& abort) const {
  const TimePoint deadline = now() + kVerdictGrace;
  while (!abort.poll() && now() < deadline) std::this_thread::sleep_for(kVerdictGrace / 100);
  return abort.aborted() ? abort.status() : broken_;
}

Status TcpTransport::progress(bool& moved) {
  for (Peer* peer : used_) {
    if (!peer->link.has_posted()) continue;
    RONDE_RETURN_IF_ERROR(judge(peer->rank, peer->link.progress_receives(moved)));
    RONDE_RETURN_IF_ERROR(judge(peer->rank, peer->link.progress_sends(moved)));
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

void TcpTransport::sleep(const AbortToken& abort) {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
  for (const Peer* peer : used_) {
    if (peer->link.has_unread()) return;
    peer->link.for_each_wait([&](int fd, int events) {
      entries.push_back({fd, static_cast<short>(events), 0});
    });
  }
  const AbortListening listening(wake_.get(), abort);
  ::poll(entries.data(), entries.size(), kSleepSliceMs);
}

}  // namespace ronde::net
