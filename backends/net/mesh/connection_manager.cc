#include "backends/net/mesh/connection_manager.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/log.h"
#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

/// Ended services that are remembered, so that a rank that still dials one learns of its end.
constexpr std::size_t kMostEnded = 256;
constexpr int kWake = -1;
constexpr int kIdle = -2;
/// Idle connections are looked at so long after their use, all at once.
constexpr std::chrono::milliseconds kSettleTime{20};

}  // namespace

ConnectionManager::ConnectionManager(Parts parts)
    : wake_(std::move(parts.wake)),
      idle_(std::move(parts.idle)),
      budget_(std::move(parts.budget)),
      connector_([this](Purpose purpose, const Digest& context) { return find(purpose, context); },
                 parts.ranks) {
  for (FileDescriptor& each : parts.listeners) connector_.listen(std::move(each));
  connector_.watch(kWake, wake_.get());
  if (limited()) connector_.watch(kIdle, idle_.get());
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

ConnectionManager::~ConnectionManager() {
  stop_.store(true);
  notify_event(wake_.get());
  thread_.join();
}

void ConnectionManager::run() noexcept {
  name_this_thread("ronde-connect");
  while (true) {
    clear_event(wake_.get());
    if (stop_.load()) return;
    take_orders();
    auto event = connector_.next(WaitLimit(settle_when_due()));
    if (event.ok()) {
      deliver(std::move(*event));
    } else {
      log(LogLevel::kWarning, "a connection was refused: {}", event.status().message());
    }
  }
}

void ConnectionManager::take_orders() {
  std::vector<DialArgs> dials;
  std::vector<PartyPtr> forgotten;
  {
    const MutexLock lock(mutex_);
    dials.swap(dials_);
    forgotten.swap(forgotten_);
  }
  for (const DialArgs& args : dials) connector_.dial(args);
  for (const PartyPtr& party : forgotten) connector_.forget_dials(*party);
}

void ConnectionManager::deliver(ConnectorEvent event) {
  if (event.kind == ConnectorEvent::Kind::kReadable && event.rank == kIdle) tend_readable();
  if (event.party == nullptr) return;
  const ServicePtr service = begin_call(event.party.get());
  if (service == nullptr) return;
  if (event.kind == ConnectorEvent::Kind::kAdmitted) {
    service->on_link(link_of(std::move(event), service->idle != nullptr));
    if (limited()) settle();
  } else {
    service->on_failure(event.rank, event.status);
  }
  end_call();
  end_some();
}

Link ConnectionManager::link_of(ConnectorEvent event, bool counts) const {
  Link link{event.rank, std::move(event.stream), event.dialed};
  if (!counts || !budget_) return link;
  link.counted = CountedConnection(budget_);
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(event.took).count();
  budget_->counts().opening_ns.fetch_add(static_cast<std::uint64_t>(took));
  return link;
}

void ConnectionManager::settle() noexcept {
  if (!limited() || is_forked()) return;
  if (unsettled_.load(std::memory_order_relaxed)) return;
  if (!unsettled_.exchange(true)) notify_event(wake_.get());
}

/// Returns when the next time comes.
TimePoint ConnectionManager::settle_when_due() {
  if (settle_at_ == kForever && unsettled_.load()) settle_at_ = now() + kSettleTime;
  if (now() < settle_at_) return settle_at_;
  settle_at_ = kForever;
  unsettled_.store(false);
  tend();
  end_some();
  return kForever;
}

void ConnectionManager::watch(ServiceId id, int fd) noexcept {
  if (!limited() || is_forked()) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = id;
  if (::epoll_ctl(idle_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return;
  (void)::epoll_ctl(idle_.get(), EPOLL_CTL_ADD, fd, &event);
}

/// The parties of services whose connections count: all, or that of one service.
std::vector<ConnectionManager::PartyPtr> ConnectionManager::with_idle(ServiceId only) {
  std::vector<PartyPtr> parties;
  const MutexLock lock(mutex_);
  for (const auto& [id, service] : services_) {
    const bool meant = only == 0 || only == id;
    if (meant && service->idle != nullptr) parties.push_back(party_of(service));
  }
  return parties;
}

void ConnectionManager::call_idle(const PartyPtr& party, auto call) {
  const ServicePtr service = begin_call(party.get());
  if (service == nullptr) return;
  call(*service->idle);
  end_call();
}

void ConnectionManager::tend(ServiceId only) {
  for (const PartyPtr& party : with_idle(only)) {
    call_idle(party, [](IdleConnections& idle) { idle.tend(); });
  }
}

void ConnectionManager::tend_readable() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(idle_.get(), events.data(), static_cast<int>(events.size()), 0);
  std::vector<ServiceId> ids;
  for (int i = 0; i < count; ++i) {
    const ServiceId id = events[static_cast<std::size_t>(i)].data.u64;  // a packed structure's
    ids.push_back(id);
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const ServiceId id : ids) tend(id);
  end_some();
}

/// Ends idle connections until no more than the limit stay, the least recently used first.
void ConnectionManager::end_some() {
  if (!limited()) return;
  for (int left = budget_->excess(); left > 0; --left) {
    const PartyPtr party = least_recently_used();
    if (party == nullptr) return;
    call_idle(party, [](IdleConnections& idle) { idle.end_least_recent(); });
  }
}

/// The party whose idle connection was not used for longest; null where none is idle.
ConnectionManager::PartyPtr ConnectionManager::least_recently_used() {
  PartyPtr least;
  TimePoint least_use = kForever;
  for (const PartyPtr& party : with_idle()) {
    call_idle(party, [&](IdleConnections& idle) {
      const TimePoint use = idle.least_recent_use();
      if (use < least_use) least = party;
      least_use = std::min(use, least_use);
    });
  }
  return least;
}

/// Null where the service has been removed.
ConnectionManager::ServicePtr ConnectionManager::begin_call(const Party* party) {
  const MutexLock lock(mutex_);
  for (const auto& [id, service] : services_) {
    if (&service->party != party) continue;
    called_ = party;
    return service;
  }
  return nullptr;
}

void ConnectionManager::end_call() {
  const MutexLock lock(mutex_);
  called_ = nullptr;
  call_ended_.notify_all();
}

ConnectionManager::PartyPtr ConnectionManager::find(Purpose purpose, const Digest& context) {
  const MutexLock lock(mutex_);
  const auto found = parties_.find({purpose, context});
  return found == parties_.end() ? nullptr : found->second;
}

ConnectionManager::ServiceId ConnectionManager::add(Service service) {
  if (is_forked()) return 0;
  const auto kept = std::make_shared<const Service>(std::move(service));
  const MutexLock lock(mutex_);
  services_[++last_id_] = kept;
  parties_[{kept->party.purpose, hash_of_context(kept->party.context)}] = party_of(kept);
  return last_id_;
}

void ConnectionManager::remove(ServiceId id) {
  if (is_forked()) return;
  const MutexLock lock(mutex_);
  const auto found = services_.find(id);
  if (found == services_.end()) return;
  const Party& party = found->second->party;
  // Without the call-backs, which may hold much.
  const auto ended = std::make_shared<const Party>(party);
  const PartyKey key{party.purpose, hash_of_context(party.context)};
  forgotten_.push_back(party_of(found->second));
  const bool from_call = std::this_thread::get_id() == thread_.get_id();
  services_.erase(found);
  parties_[key] = ended;
  ended_.emplace_back(key, ended);
  forget_oldest();
  notify_event(wake_.get());
  while (!from_call && called_ == &party) call_ended_.wait(mutex_);
}

void ConnectionManager::forget_oldest() {
  if (ended_.size() <= kMostEnded) return;
  const auto& [key, party] = ended_.front();
  const auto found = parties_.find(key);
  // The same context may have a new service.
  if (found != parties_.end() && found->second == party) parties_.erase(found);
  ended_.pop_front();
}

void ConnectionManager::dial(ServiceId id, int rank, const Route& route, TimePoint deadline) {
  if (is_forked()) return;
  const MutexLock lock(mutex_);
  const auto found = services_.find(id);
  if (found == services_.end()) return;
  dials_.push_back({.party = party_of(found->second),
                    .rank = rank,
                    .endpoints = {route.to},
                    .deadline = deadline,
                    .source = route.from});
  notify_event(wake_.get());
}

Result<std::shared_ptr<ConnectionManager>> ConnectionManager::create(
    FileDescriptor listener, int ranks, std::shared_ptr<ConnectionBudget> budget) {
  std::vector<FileDescriptor> one;
  one.push_back(std::move(listener));
  return create(std::move(one), ranks, std::move(budget));
}

Result<std::shared_ptr<ConnectionManager>> ConnectionManager::create(
    std::vector<FileDescriptor> listeners, int ranks, std::shared_ptr<ConnectionBudget> budget) {
  Parts parts{std::move(listeners), make_event(), {}, ranks, std::move(budget)};
  if (!parts.wake.valid()) {
    return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  }
  if (parts.budget != nullptr && parts.budget->limited()) {
    parts.idle.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!parts.idle.valid()) return errno_status("cannot make an epoll", Code::kResourceExhausted);
  }
  // The thread does not exist in a forked child, which leaks what the thread may have held.
  return std::shared_ptr<ConnectionManager>(new ConnectionManager(std::move(parts)),
                                            [](const ConnectionManager* made) {
                                              if (!made->is_forked()) delete made;
                                            });
}

}  // namespace ronde::net
