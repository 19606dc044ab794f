#include "backends/net/transport/healing_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/net/transport/abort_wait.h"
#include "backends/net/transport/transfer_id.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

constexpr int kSleepSliceMs = 50;
constexpr std::chrono::milliseconds kLookInterval{100};
// The thread looks again after this time whether callers still drive. It costs them no wake-up.
constexpr std::chrono::milliseconds kHandOver{10};
// The lower rank asks for a connection where the higher one has not made it meanwhile.
constexpr std::chrono::seconds kFirstLate{1};
constexpr std::chrono::milliseconds kLate{200};

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

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
      mailbox_(std::move(wake)),
      thread_wake_(std::move(thread_wake)),
      peers_(static_cast<std::size_t>(args_.members.size())) {
  service_ = args_.manager->add(
      {.party = args_.party,
       .on_link = [this](Link link) { mailbox_.put(std::move(link)); },
       .on_failure = [this](int rank, const Status& why) { mailbox_.put(rank, why); }});
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
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
  for (Link& link : mail.links) take_link(std::move(link));
  for (const auto& [rank, why] : mail.failures) RONDE_RETURN_IF_ERROR(take_failure(rank, why));
  return {};
}

void HealingTransport::take_link(Link link) {
  const int rank = args_.members.position(link.rank);
  if (!args_.members.is_peer(rank)) return;
  Peer& from = peer(rank);
  if (link.dialed) from.dialing = false;
  from.link.attach(std::move(link));
}

/// Nobody needs a connection with a peer that has ended after all transfers.
Status HealingTransport::take_failure(int job_rank, const Status& why) {
  Peer& with = peer(args_.members.position(job_rank));
  with.dialing = false;
  with.ended = why.code() == Code::kRankFailure;
  return with.link.has_posted() ? args_.members.not_connected(with.rank, why) : Status();
}

// Transfers.

Status HealingTransport::check_peer(int rank) const {
  return told_.ok() ? args_.members.check_peer(rank) : told_;
}

HealingTransport::Peer& HealingTransport::peer(int rank) {
  auto& slot = peers_[static_cast<std::size_t>(rank)];
  if (slot == nullptr) {
    slot = std::make_unique<Peer>(rank, /*dials=*/rank < args_.members.rank(), args_.window_bytes);
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
  if (broken_.ok()) broken_ = args_.members.judge(to, with.link.progress_sends(moved));
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
  const BondedLink& link = peers_[static_cast<std::size_t>(peer_of(id))]->link;
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
    RONDE_RETURN_IF_ERROR(args_.members.judge(each->rank, each->link.progress(moved)));
    if (!each->link.is_slowed()) RONDE_RETURN_IF_ERROR(connect(*each));
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
Status HealingTransport::connect(Peer& with) {
  if (with.dialing || with.ended || !with.link.wants_connection()) return {};
  if (with.link.dials()) return dial(with);
  const auto& outage = with.link.outage();
  const TimePoint late = outage ? outage->began + kLate : with.link.posted_since() + kFirstLate;
  return now() > late ? dial(with) : Status();
}

Status HealingTransport::dial(Peer& with) {
  const FailedRank& who = args_.members.who(with.rank);
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, args_.address(who));
  with.dialing = true;
  args_.manager->dial(service_, who.rank, address,
                      with.link.was_connected() ? kForever : now() + args_.timeout);
  return {};
}

/// The reasons to wait no longer.
Status HealingTransport::check(Peer& with) {
  const BondedLink& link = with.link;
  if (!link.has_posted()) return {};
  if (with.ended || link.peer_left() || link.is_refused()) {
    return args_.members.gone(with.rank, "is gone: it has left the group");
  }
  if (!link.outage()) return {};
  const TimePoint since = std::max(link.outage()->began, link.posted_since());
  if (now() < since + args_.limit) return {};
  return args_.members.gone(
      with.rank,
      fmt::format("is cut off: its connection with {} {}, and there was none for {:.3g} s "
                  "(RONDE_RECONNECT_SECONDS)",
                  args_.members.name_of(args_.members.rank()), link.outage()->reason,
                  seconds(args_.limit)));
}

void HealingTransport::report_outages(Peer& with) {
  for (const LinkOutage& outage : with.link.take_ended_outages()) report(with.rank, outage);
}

void HealingTransport::report(int rank, const LinkOutage& outage) const {
  const Duration lasted = outage.ended - outage.began;
  log(LogLevel::kWarning, "the connection with {} {}; it works again after {:.2f} s",
      args_.members.name_of(rank), outage.reason, seconds(lasted));
  const ConnectionObservers& observers = args_.observers;
  if (observers.counts) {
    observers.counts->healed.fetch_add(1);
    observers.counts->outage_ns.fetch_add(static_cast<std::uint64_t>(to_ns(lasted)));
  }
  if (observers.on_healed) {
    observers.on_healed(args_.members.who(rank).rank, {to_ns(outage.began), to_ns(outage.ended)});
  }
}

HealingTransport::Nap HealingTransport::nap() const {
  Nap nap{.entries = {{mailbox_.wake(), POLLIN, 0}}};
  for (const Peer* each : used_) {
    nap.ready = nap.ready || each->link.has_unread();
    nap.needs_looks = nap.needs_looks || each->link.needs_looks();
    each->link.for_each_wait([&](int fd, int events) {
      nap.entries.push_back({fd, static_cast<short>(events), 0});
    });
  }
  return nap;
}

void HealingTransport::sleep(Nap& nap, int limit_ms, bool& woken) {
  ::poll(nap.entries.data(), nap.entries.size(), limit_ms);
  woken = nap.entries.front().revents != 0;
}

// The thread.

void HealingTransport::run() noexcept {
  name_this_thread("ronde-heal");
  bool woken = false;
  Nap nap;
  while (drive(nap, woken)) {
    if (!nap.ready)
      sleep(nap, nap.needs_looks ? static_cast<int>(kLookInterval.count()) : -1, woken);
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
  args_.manager->remove(service_);
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
  while (broken_.ok() && now() < deadline && !all_confirmed()) {
    if (args_.abort && args_.abort->aborted()) return;
    turn_->wait_until(mutex_, now() + kLookInterval);
  }
}

bool HealingTransport::all_confirmed() const {
  return std::ranges::all_of(used_,
                             [](const Peer* each) { return each->ended || each->link.may_end(); });
}

}  // namespace ronde::net
