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

}  // namespace

class HealingTransport::Idle final : public IdleConnections {
 public:
  Idle(HealingTransport& owner, std::size_t card) noexcept : owner_(owner), card_(card) {}

  void tend() override {}  // the transport's own thread does
  TimePoint least_recent_use() override { return owner_.least_recent_use(card_); }
  void end_least_recent() override { owner_.end_least_recent(card_); }

 private:
  HealingTransport& owner_;
  const std::size_t card_;
};

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
      peers_(static_cast<std::size_t>(args_.members.size())),
      turn_(std::move(thread_wake)) {
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
  idle_.push_back(std::make_unique<Idle>(*this, card));
  services_.push_back(args_.manager->add(
      {std::move(party), std::move(on_link), std::move(on_failure), idle_.back().get()}));
}

HealingTransport::~HealingTransport() {
  if (::getpid() == process_) {
    say_goodbye();
    stop_thread();
    return;
  }
  // A forked child has no such thread, and says no goodbye on its parent's connections.
  (void)std::make_unique<std::thread>(std::move(thread_)).release();
  turn_.forget();
  mailbox_.forget();
  for (auto& each : peers_) (void)each.release();
}

void HealingTransport::stop_thread() {
  {
    const MutexLock lock(mutex_);
    turn_.stop();
  }
  thread_.join();
}

// Connections that may rest, for the manager's thread.

BondedLink* HealingTransport::least_recently_used(std::size_t card) {
  BondedLink* least = nullptr;
  for (HealingPeer* each : used_) {
    BondedLink& lane = each->link().lane(card);
    if (!lane.may_rest()) continue;
    if (least == nullptr || lane.last_progress() < least->last_progress()) least = &lane;
  }
  return least;
}

TimePoint HealingTransport::least_recent_use(std::size_t card) {
  const MutexLock lock(mutex_);
  const BondedLink* const least = least_recently_used(card);
  return least == nullptr ? kForever : least->last_progress();
}

void HealingTransport::end_least_recent(std::size_t card) {
  const MutexLock lock(mutex_);
  BondedLink* const least = least_recently_used(card);
  if (least == nullptr) return;
  least->rest();
  turn_.note_call();  // the thread sends it
}

// Mail.

Status HealingTransport::take_mail() {
  Mailbox::Mail mail = mailbox_.take();
  for (Mailbox::Arrival& arrival : mail.links) {
    const int rank = args_.members.position(arrival.link.rank);
    if (args_.members.is_peer(rank)) peer(rank).take_link(arrival.card, std::move(arrival.link));
  }
  for (const auto& failure : mail.failures) {
    HealingPeer& with = peer(args_.members.position(failure.rank));
    RONDE_RETURN_IF_ERROR(with.take_failure(failure.card, failure.why));
  }
  return {};
}

// Transfers.

Status HealingTransport::check_peer(int rank) const {
  return told_.ok() ? args_.members.check_peer(rank) : told_;
}

HealingPeer& HealingTransport::peer(int rank) {
  auto& slot = peers_[static_cast<std::size_t>(rank)];
  if (slot == nullptr) {
    slot = std::make_unique<HealingPeer>(rank, needs_);
    used_.push_back(slot.get());
  }
  return *slot;
}

Result<TransferId> HealingTransport::send(int to, std::span<const std::byte> data) {
  const MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(check_peer(to));
  turn_.note_call();
  HealingPeer& with = peer(to);
  const TransferId id = make_transfer_id(false, to, with.link().post_send(data));
  bool moved = false;
  if (broken_.ok()) broken_ = with.connect();
  if (broken_.ok()) broken_ = with.progress_sends(moved);
  return id;
}

Result<TransferId> HealingTransport::recv(int from, std::span<std::byte> data) {
  const MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(check_peer(from));
  turn_.note_call();
  HealingPeer& with = peer(from);
  const TransferId id = make_transfer_id(true, from, with.link().post_receive(data));
  if (broken_.ok()) broken_ = with.connect();
  return id;
}

bool HealingTransport::done(TransferId id) const {
  const StripedLink& link = peers_[static_cast<std::size_t>(peer_of(id))]->link();
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
  turn_.note_call();
  turn_.begin_wait();
  bool moved = false;
  if (broken_.ok() && !done(id)) broken_ = progress(moved);
  const bool finished = done(id);
  if (finished || !broken_.ok()) {
    turn_.end_wait(!broken_.ok());
    args_.manager->settle();
    return finished ? Status() : broken_;
  }
  if (!moved) nap_for = nap();
  nap_for.ready = nap_for.ready || moved;
  return std::nullopt;
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
  for (HealingPeer* each : used_) RONDE_RETURN_IF_ERROR(each->progress(moved));
  return now() >= looked_ + kLookInterval ? look() : Status();
}

Status HealingTransport::look() {
  looked_ = now();
  for (HealingPeer* each : used_) RONDE_RETURN_IF_ERROR(each->look(looked_));
  return {};
}

HealingTransport::Nap HealingTransport::nap() const {
  Nap nap{.entries = {{mailbox_.wake(), POLLIN, 0}}};
  const auto add = [&](int fd, int events) {
    nap.entries.push_back({fd, static_cast<short>(events), 0});
  };
  for (const HealingPeer* each : used_) {
    nap.ready = nap.ready || each->link().has_unread();
    nap.needs_looks = nap.needs_looks || each->link().needs_looks();
    each->link().for_each_wait(add);
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
  while (turn_.stay_away(mutex_, !broken_.ok())) {
  }
  if (turn_.stopped() || !broken_.ok()) return false;
  if (woken) clear_event(mailbox_.wake());
  turn_.begin();
  bool moved = false;
  broken_ = progress(moved);
  nap_for = nap();
  nap_for.entries.push_back({turn_.wake(), POLLIN, 0});
  nap_for.ready = moved || nap_for.ready || !broken_.ok();
  turn_.end(/*polls=*/!nap_for.ready);
  if (moved) args_.manager->settle();
  return true;
}

/// Nothing moves any more. The peers see that by their connections, old and new ones.
void HealingTransport::withdraw() {
  for (const auto service : services_) args_.manager->remove(service);
  const MutexLock lock(mutex_);
  for (HealingPeer* each : used_) each->link().close();
}

/// The peers may still lack what was sent: it goes with this process's connections.
void HealingTransport::say_goodbye() {
  const MutexLock lock(mutex_);
  for (HealingPeer* each : used_) {
    if (each->link().was_connected()) each->link().post_goodbye();
  }
  turn_.leave();
  const TimePoint deadline = now() + args_.limit;
  const auto may_end = [](const HealingPeer* each) { return each->may_end(); };
  while (broken_.ok() && now() < deadline && !std::ranges::all_of(used_, may_end)) {
    if (args_.abort && args_.abort->aborted()) return;
    turn_.wait_for_thread(mutex_, kLookInterval);
  }
}

}  // namespace ronde::net
