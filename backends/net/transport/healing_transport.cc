#include "backends/net/transport/healing_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/net/transport/abort_wait.h"
#include "backends/net/transport/transfer_id.h"
#include "core/base/clock.h"
#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};
// The thread looks again after this time whether callers still drive. It costs them no wake-up.
constexpr std::chrono::milliseconds kHandOver{10};
// The lower rank asks for a connection where the higher one has not made it meanwhile.
constexpr std::chrono::seconds kFirstLate{1};
constexpr std::chrono::milliseconds kLateLane{200};
// An outage of one of several cards that lasts so long is worth a warning.
constexpr std::chrono::seconds kLeftOut{1};

}  // namespace

Result<std::unique_ptr<HealingTransport>> HealingTransport::create(HealingTransportArgs args) {
  FileDescriptor wake = make_event();
  FileDescriptor thread_wake = make_event();
  if (!wake.valid() || !thread_wake.valid()) {
    return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  }
  return std::unique_ptr<HealingTransport>(
      new HealingTransport(std::move(args), std::move(wake), std::move(thread_wake)));
}

HealingTransport::HealingTransport(HealingTransportArgs args, FileDescriptor wake,
                                   FileDescriptor thread_wake)
    : args_(std::move(args)),
      reports_(args_.members, args_.cards, args_.observers, args_.limit, args_.needs_all_cards),
      mailbox_(std::move(wake)),
      thread_wake_(std::move(thread_wake)),
      peers_(static_cast<std::size_t>(args_.members.size())) {
  for (std::size_t card = 0; card < args_.cards.size(); ++card) add_service(card);
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

/// The connections of each card are a service, so that both ends know which card it is.
void HealingTransport::add_service(std::size_t card) {
  Party party = args_.party;
  if (card > 0) party.context += fmt::format("\ncard {}", card);
  auto on_link = [this, card](Link link) { mailbox_.put({card, std::move(link)}); };
  auto on_failure = [this, card](int rank, const Status& why) {
    mailbox_.put(Mailbox::Failure{card, rank, why});
  };
  services_.push_back(
      args_.manager->add({std::move(party), std::move(on_link), std::move(on_failure)}));
}

HealingTransport::~HealingTransport() {
  if (::getpid() == process_) {
    say_goodbye();
    stop_thread();
    return;
  }
  // A forked child has no such thread, and says no goodbye on its parent's connections.
  (void)std::make_unique<std::thread>(std::move(thread_)).release();
  (void)turn_.release();
  mailbox_.forget();
  for (auto& each : peers_) (void)each.release();
}

void HealingTransport::stop_thread() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    turn_->notify_all();
  }
  notify_event(thread_wake_.get());
  thread_.join();
}

// Mail.

Status HealingTransport::take_mail() {
  Mailbox::Mail mail = mailbox_.take();
  for (Mailbox::Arrival& arrival : mail.links) take_link(std::move(arrival));
  for (const auto& failure : mail.failures) RONDE_RETURN_IF_ERROR(take_failure(failure));
  return {};
}

void HealingTransport::take_link(Mailbox::Arrival arrival) {
  const int rank = args_.members.position(arrival.link.rank);
  if (!args_.members.is_peer(rank)) return;
  Peer& from = peer(rank);
  if (arrival.link.dialed) from.dialing.reset(arrival.card);
  from.link.lane(arrival.card).attach(std::move(arrival.link));
}

/// Nobody needs a connection with a peer that has ended after all transfers, nor a card that does
/// not work beside one that does.
Status HealingTransport::take_failure(const Mailbox::Failure& failure) {
  Peer& with = peer(args_.members.position(failure.rank));
  with.dialing.reset(failure.card);
  with.ended = failure.why.code() == Code::kRankFailure;
  if (!with.link.has_posted()) return {};
  if (!args_.needs_all_cards && !with.ended && with.link.works()) {
    leave_out(with, failure.card, "was not made in time");
    return {};
  }
  return reports_.not_connected(with.rank, failure.card, failure.why);
}

// Transfers.

Status HealingTransport::check_peer(int rank) const {
  return told_.ok() ? args_.members.check_peer(rank) : told_;
}

HealingTransport::Peer& HealingTransport::peer(int rank) {
  auto& slot = peers_[static_cast<std::size_t>(rank)];
  if (slot == nullptr) {
    slot = std::make_unique<Peer>(rank, /*dials=*/rank < args_.members.rank(), args_.window_bytes,
                                  args_.cards.size());
    used_.push_back(slot.get());
  }
  return *slot;
}

Result<TransferId> HealingTransport::send(int to, std::span<const std::byte> data) {
  const MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(check_peer(to));
  note_call();
  Peer& with = peer(to);
  const TransferId id = make_transfer_id(false, to, with.link.post_send(data));
  if (broken_.ok()) broken_ = connect(with);
  bool moved = false;
  std::size_t card = 0;
  const Status sent = broken_.ok() ? with.link.progress_sends(moved, card) : broken_;
  if (broken_.ok()) broken_ = reports_.judge(to, card, sent);
  return id;
}

Result<TransferId> HealingTransport::recv(int from, std::span<std::byte> data) {
  const MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(check_peer(from));
  note_call();
  Peer& with = peer(from);
  const TransferId id = make_transfer_id(true, from, with.link.post_receive(data));
  if (broken_.ok()) broken_ = connect(with);
  return id;
}

bool HealingTransport::done(TransferId id) const {
  const StripedLink& link = peers_[static_cast<std::size_t>(peer_of(id))]->link;
  return is_incoming(id) ? link.received(number_of(id)) : link.sent(number_of(id));
}

Status HealingTransport::wait(TransferId id, const AbortToken& abort) {
  bool woken = false;
  while (true) {
    if (woken) clear_event(mailbox_.wake());
    Nap nap;
    if (const auto end = try_to_finish(id, nap)) return end->ok() ? *end : verdict(*end, abort);
    if (abort.poll()) {
      const MutexLock lock(mutex_);
      if (broken_.ok()) broken_ = abort.status();
    } else if (!nap.ready) {
      const AbortListening listening(mailbox_.wake(), abort);
      sleep(nap, kSleepSliceMs, woken);
    }
  }
}

std::optional<Status> HealingTransport::try_to_finish(TransferId id, Nap& nap_for) {
  const MutexLock lock(mutex_);
  note_call();
  caller_waits_ = true;
  bool moved = false;
  if (broken_.ok() && !done(id)) broken_ = progress(moved);
  const bool finished = done(id);
  if (finished || !broken_.ok()) {
    stop_waiting();
    return finished ? Status() : broken_;
  }
  if (!moved) nap_for = nap();
  nap_for.ready = nap_for.ready || moved;
  return std::nullopt;
}

/// The thread must not sleep on: a caller may add connections that its poll() does not know of.
void HealingTransport::note_call() {
  ++calls_;
  if (std::exchange(thread_polls_, false)) notify_event(thread_wake_.get());
}

void HealingTransport::stop_waiting() {
  caller_waits_ = false;
  if (thread_rests_) turn_->notify_all();
  if (!broken_.ok()) notify_event(thread_wake_.get());
}

Status HealingTransport::verdict(const Status& error, const AbortToken& abort) {
  {
    const MutexLock lock(mutex_);
    if (!told_.ok()) return told_;
  }
  const Status told = wait_for_verdict(error, abort);
  const MutexLock lock(mutex_);
  if (told_.ok()) told_ = told;
  return told_;
}

// Links.

Status HealingTransport::progress(bool& moved) {
  RONDE_RETURN_IF_ERROR(take_mail());
  for (Peer* each : used_) {
    std::size_t card = 0;
    const Status status = each->link.progress(moved, card);
    RONDE_RETURN_IF_ERROR(reports_.judge(each->rank, card, status));
    for (card = 0; card < args_.cards.size(); ++card) {
      if (!each->link.lane(card).is_slowed()) RONDE_RETURN_IF_ERROR(connect(*each, card));
    }
  }
  return now() >= looked_ + kLookInterval ? look() : Status();
}

/// The slow part of a turn: silence, limits and new connections.
Status HealingTransport::look() {
  looked_ = now();
  for (Peer* each : used_) {
    each->link.look(looked_);
    report_outages(*each);
    RONDE_RETURN_IF_ERROR(check(*each));
    RONDE_RETURN_IF_ERROR(connect(*each));
  }
  return {};
}

/// Connects where that is needed. The lower rank asks for it once the higher one is late.
Status HealingTransport::connect(Peer& with, std::size_t card) {
  const BondedLink& lane = with.link.lane(card);
  if (with.dialing.test(card) || with.ended || !lane.wants_connection()) return {};
  if (with.link.dials()) return dial(with, card);
  const auto& outage = lane.outage();
  const TimePoint late = outage ? outage->began + kLateLane : with.link.posted_since() + kFirstLate;
  return now() > late ? dial(with, card) : Status();
}

Status HealingTransport::connect(Peer& with) {
  for (std::size_t card = 0; card < args_.cards.size(); ++card) {
    RONDE_RETURN_IF_ERROR(connect(with, card));
  }
  return {};
}

Status HealingTransport::dial(Peer& with, std::size_t card) {
  const FailedRank& who = args_.members.who(with.rank);
  RONDE_ASSIGN_OR_RETURN(const Route route, args_.route(who, card));
  with.dialing.set(card);
  args_.manager->dial(services_[card], who.rank, route,
                      with.link.lane(card).was_connected() ? kForever : now() + args_.timeout);
  return {};
}

/// The reasons to wait no longer.
Status HealingTransport::check(Peer& with) {
  const StripedLink& link = with.link;
  if (!link.has_posted()) return {};
  if (with.ended || link.peer_left()) {
    return args_.members.gone(with.rank, "is gone: it has left the group");
  }
  if (!args_.needs_all_cards && link.works()) return {};
  for (std::size_t card = 0; card < args_.cards.size(); ++card) {
    RONDE_RETURN_IF_ERROR(check_outage(with, card));
  }
  return {};
}

Status HealingTransport::check_outage(const Peer& with, std::size_t card) const {
  const auto& outage = with.link.lane(card).outage();
  if (!outage) return {};
  // Transfers that end meanwhile prove nothing where all cards are needed.
  const TimePoint posted = args_.needs_all_cards ? TimePoint() : with.link.posted_since();
  if (now() < std::max(outage->began, posted) + args_.limit) return {};
  return reports_.cut_off(with.rank, card, *outage);
}

void HealingTransport::report_outages(Peer& with) {
  for (std::size_t card = 0; card < args_.cards.size(); ++card) {
    BondedLink& lane = with.link.lane(card);
    const auto& outage = lane.outage();
    const bool lasts = outage && now() > outage->began + kLeftOut;
    if (lasts && !args_.needs_all_cards && with.link.works()) leave_out(with, card, outage->reason);
    if (lane.works()) with.left_out.reset(card);
    for (const LinkOutage& ended : lane.take_ended_outages()) {
      reports_.report_outage(with.rank, card, ended);
    }
  }
}

/// Warns once of a card that does not work beside one that does.
void HealingTransport::leave_out(Peer& with, std::size_t card, const std::string& reason) {
  if (!with.left_out.test(card)) reports_.warn_of_card(with.rank, card, reason);
  with.left_out.set(card);
}

HealingTransport::Nap HealingTransport::nap() const {
  Nap nap{.entries = {{mailbox_.wake(), POLLIN, 0}}};
  const auto add = [&](int fd, int events) {
    nap.entries.push_back({fd, static_cast<short>(events), 0});
  };
  for (const Peer* each : used_) {
    nap.ready = nap.ready || each->link.has_unread();
    nap.needs_looks = nap.needs_looks || each->link.needs_looks();
    each->link.for_each_wait(add);
  }
  return nap;
}

void HealingTransport::sleep(Nap& nap, std::int64_t limit_ms, bool& woken) {
  ::poll(nap.entries.data(), nap.entries.size(), static_cast<int>(limit_ms));
  woken = nap.entries.front().revents != 0;
}

// The thread.

void HealingTransport::run() noexcept {
  name_this_thread("ronde-heal");
  bool woken = false;
  Nap nap;
  while (drive(nap, woken)) {
    if (!nap.ready) sleep(nap, nap.needs_looks ? kLookInterval.count() : -1, woken);
  }
  withdraw();
}

/// One turn, once no caller drives the links; false at the end. The wake-up is the caller's where
/// there is one.
bool HealingTransport::drive(Nap& nap_for, bool woken) {
  const MutexLock lock(mutex_);
  thread_polls_ = false;
  while (stay_away()) {
  }
  if (stop_ || !broken_.ok()) return false;
  if (woken) clear_event(mailbox_.wake());
  clear_event(thread_wake_.get());
  bool moved = false;
  broken_ = progress(moved);
  if (leaves_) turn_->notify_all();
  nap_for = nap();
  nap_for.entries.push_back({thread_wake_.get(), POLLIN, 0});
  nap_for.ready = moved || nap_for.ready || !broken_.ok();
  thread_polls_ = !nap_for.ready;
  return true;
}

/// False if no caller has driven the links for a while. Sleeps otherwise.
bool HealingTransport::stay_away() {
  const bool called = calls_seen_ != calls_;
  calls_seen_ = calls_;
  if (stop_ || leaves_ || !broken_.ok()) return false;
  if (caller_waits_ && !called) {
    thread_rests_ = true;
    turn_->wait(mutex_);
    thread_rests_ = false;
    return true;
  }
  if (called) turn_->wait_until(mutex_, now() + kHandOver);
  return called;
}

/// Nothing moves any more. The peers see that by their connections, old and new ones.
void HealingTransport::withdraw() {
  for (const auto service : services_) args_.manager->remove(service);
  const MutexLock lock(mutex_);
  for (Peer* each : used_) each->link.close();
}

/// The peers may still lack what was sent: it goes with this process's connections.
void HealingTransport::say_goodbye() {
  const MutexLock lock(mutex_);
  leaves_ = true;
  for (Peer* each : used_) {
    if (each->link.was_connected()) each->link.post_goodbye();
  }
  turn_->notify_all();
  notify_event(thread_wake_.get());
  const TimePoint deadline = now() + args_.limit;
  const auto confirmed = [](const Peer* each) { return each->ended || each->link.may_end(); };
  while (broken_.ok() && now() < deadline && !std::ranges::all_of(used_, confirmed)) {
    if (args_.abort && args_.abort->aborted()) return;
    turn_->wait_until(mutex_, now() + kLookInterval);
  }
}

}  // namespace ronde::net
