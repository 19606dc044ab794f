#include "backends/net/transport/tcp_transport.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <utility>

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
    : args_(std::move(args)), mailbox_(std::move(wake)) {
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
  peers_.forget();
  mailbox_.forget();
}

/// A peer may ask to end a connection just before this side closes it. Its word would reset the
/// connection, and what has not been delivered would be lost. The manager knows this no more.
void TcpTransport::deliver_rest() {
  if (!args_.manager->limited() || !broken_.ok()) return;
  peers_.wait_until_delivered(now() + kLongestRoundTrip);
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
  if (broken_.ok()) peers_.tend();
  state_.unlock();
}

TimePoint TcpTransport::least_recent_use() {
  if (!try_state()) return kForever;
  const TimePoint use = broken_.ok() ? peers_.least_recent_use() : kForever;
  state_.unlock();
  return use;
}

void TcpTransport::end_least_recent() {
  if (!try_state()) return;
  if (broken_.ok()) peers_.end_least_recent();
  state_.unlock();
}

/// Comes before a look at the abort token, whose wake-up it may clear.
Status TcpTransport::take_mail() {
  Mailbox::Mail mail = mailbox_.take();
  for (auto& arrival : mail.links) peers_.take_link(std::move(arrival.link));
  for (const auto& failure : mail.failures) {
    RONDE_RETURN_IF_ERROR(peers_.take_failure(failure.rank, failure.why));
  }
  return {};
}

Status TcpTransport::check_peer(int rank) const {
  return told_.ok() ? args_.members.check_peer(rank) : told_;
}

Result<TransferId> TcpTransport::send(int to, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(to));
  const MutexLock lock(state_);
  const TransferId id = make_transfer_id(false, to, peers_.use(to).post_send(data));
  if (broken_.ok()) broken_ = peers_.send(to);
  return id;
}

Result<TransferId> TcpTransport::recv(int from, std::span<std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(from));
  const MutexLock lock(state_);
  const TransferId id = make_transfer_id(true, from, peers_.use(from).post_receive(data));
  if (broken_.ok()) broken_ = peers_.connect(from);
  return id;
}

Status TcpTransport::wait(TransferId id, const AbortToken& abort) {
  std::vector<pollfd> sleep_on;
  while (!drive(id, abort, sleep_on)) {
    if (!sleep_on.empty()) sleep(sleep_on, abort);
  }
  args_.manager->settle();
  const bool ended_well = [&] {
    const MutexLock lock(state_);
    return peers_.done(id);
  }();
  if (ended_well) return {};
  if (told_.ok()) told_ = verdict(abort);
  return told_;
}

/// One step of a wait; true once it is over. Then sleep on `sleep_on`, if on any.
bool TcpTransport::drive(TransferId id, const AbortToken& abort, std::vector<pollfd>& sleep_on) {
  const MutexLock lock(state_);
  sleep_on.clear();
  if (broken_.ok() && !peers_.done(id)) broken_ = step(id, abort, sleep_on);
  waits_ = broken_.ok() && !peers_.done(id);
  return !waits_;
}

Status TcpTransport::step(TransferId id, const AbortToken& abort, std::vector<pollfd>& sleep_on) {
  RONDE_RETURN_IF_ERROR(take_mail());
  if (abort.poll()) return abort.status();
  bool more = false;
  RONDE_RETURN_IF_ERROR(peers_.progress(more));
  if (more || peers_.done(id)) return {};
  RONDE_RETURN_IF_ERROR(peers_.watch_late());
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

/// Lists the descriptors of all that may move next; nothing where something may move now.
void TcpTransport::list_waits(std::vector<pollfd>& sleep_on) const {
  if (peers_.has_unread()) return;
  sleep_on.push_back({mailbox_.wake(), POLLIN, 0});
  peers_.for_each_wait([&](int fd, int events) {
    sleep_on.push_back({fd, static_cast<short>(events), 0});
  });
}

void TcpTransport::sleep(std::vector<pollfd>& sleep_on, const AbortToken& abort) const {
  const AbortListening listening(mailbox_.wake(), abort);
  ::poll(sleep_on.data(), sleep_on.size(), kSleepSliceMs);
}

}  // namespace ronde::net
