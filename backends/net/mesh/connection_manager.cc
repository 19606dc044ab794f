#include "backends/net/mesh/connection_manager.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/base/log.h"
#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

/// Ended services that are remembered, so that a rank that still dials one learns of its end.
constexpr std::size_t kMostEnded = 256;
constexpr int kWake = -1;
constexpr int kWatched = -2;
/// Connections are tended so long after a caller has used one, all at once.
constexpr std::chrono::milliseconds kSettleTime{20};

}  // namespace

ConnectionManager::ConnectionManager(FileDescriptor wake, FileDescriptor watched, int ranks,
                                     std::shared_ptr<ConnectionBudget> budget)
    : wake_(std::move(wake)),
      watched_(std::move(watched)),
      budget_(std::move(budget)),
      connector_([this](Purpose purpose, const Digest& context) { return find(purpose, context); },
                 ranks) {
  connector_.watch(kWake, wake_.get());
  connector_.watch(kWatched, watched_.get());
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
    auto event = connector_.next(WaitLimit(tend_when_due()));
    if (event.ok()) {
      deliver(std::move(*event));
    } else {
      log(LogLevel::kWarning, "a connection was refused: {}", event.status().message());
    }
  }
}

void ConnectionManager::order(std::function<void()> what) {
  orders_.push_back(std::move(what));
  notify_event(wake_.get());
}

void ConnectionManager::take_orders() {
  std::vector<std::function<void()>> orders;
  {
    const MutexLock lock(mutex_);
    orders.swap(orders_);
  }
  for (const auto& each : orders) each();
}

void ConnectionManager::deliver(ConnectorEvent event) {
  if (event.kind == ConnectorEvent::Kind::kReadable && event.rank == kWatched) tend_ready();
  if (event.party == nullptr) return;
  call(service_of(*event.party), [&](const Service& service) {
    if (event.kind == ConnectorEvent::Kind::kAdmitted) {
      Link link{event.rank, std::move(event.stream), event.dialed};
      if (service.tended && budget_) {
        link.counted = std::make_unique<CountedConnection>(budget_, event.took);
      }
      service.on_link(std::move(link));
    } else {
      service.on_failure(event.rank, event.status);
    }
    tend(service);
  });
  end_some();
}

void ConnectionManager::settle() noexcept {
  if (unsettled_.load(std::memory_order_relaxed) || is_forked()) return;
  if (!unsettled_.exchange(true)) notify_event(wake_.get());
}

void ConnectionManager::watch(ServiceId id, int fd, int events) noexcept {
  if (is_forked()) return;
  static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT);
  epoll_event event{};
  event.events = static_cast<std::uint32_t>(events) | EPOLLONESHOT;
  event.data.u64 = id;
  if (::epoll_ctl(watched_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return;
  (void)::epoll_ctl(watched_.get(), EPOLL_CTL_ADD, fd, &event);
}

/// Returns when the next time comes.
TimePoint ConnectionManager::tend_when_due() {
  if (unsettled_.load()) tend_at_ = std::min<TimePoint>(tend_at_, now() + kSettleTime);
  if (now() < tend_at_) return tend_at_;
  tend_at_ = kForever;
  unsettled_.store(false);
  for (const ServiceId id : tended()) {
    call(id, [this](const Service& service) { tend(service); });
  }
  end_some();
  return tend_at_;
}

void ConnectionManager::tend(const Service& service) {
  if (service.tended) tend_at_ = std::min(tend_at_, service.tended->tend());
}

void ConnectionManager::tend_ready() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(watched_.get(), events.data(), static_cast<int>(events.size()), 0);
  std::set<ServiceId> ids;
  for (int i = 0; i < count; ++i) {
    const ServiceId id = events[static_cast<std::size_t>(i)].data.u64;  // a packed structure's
    ids.insert(id);
  }
  for (const ServiceId id : ids) {
    call(id, [this](const Service& service) { tend(service); });
  }
  end_some();
}

/// Ends idle connections until no more than the limit stay, the least recently used first.
void ConnectionManager::end_some() {
  if (!limited()) return;
  for (int left = budget_->excess(); left > 0; --left) {
    const ServiceId id = least_recently_used();
    if (id == 0) return;
    call(id, [](const Service& service) { service.tended->end_least_recent(); });
  }
}

/// The service whose idle connection was not used for longest; 0 where none is idle.
ConnectionManager::ServiceId ConnectionManager::least_recently_used() {
  ServiceId least = 0;
  TimePoint least_use = kForever;
  for (const ServiceId id : tended()) {
    call(id, [&](const Service& service) {
      const TimePoint use = service.tended->least_recent_use();
      if (use < least_use) least = id;
      least_use = std::min(use, least_use);
    });
  }
  return least;
}

std::vector<ConnectionManager::ServiceId> ConnectionManager::tended() {
  std::vector<ServiceId> ids;
  const MutexLock lock(mutex_);
  for (const auto& [id, service] : services_) {
    if (service->tended) ids.push_back(id);
  }
  return ids;
}

/// 0 where it has been removed.
ConnectionManager::ServiceId ConnectionManager::service_of(const Party& party) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(
      services_, [&](const auto& entry) { return &entry.second->party == &party; });
  return found == services_.end() ? 0 : found->first;
}

/// Does nothing where the service has been removed.
void ConnectionManager::call(ServiceId id, auto body) {
  ServicePtr service;
  {
    const MutexLock lock(mutex_);
    const auto found = services_.find(id);
    if (found == services_.end()) return;
    called_ = id;
    service = found->second;
  }
  body(*service);
  const MutexLock lock(mutex_);
  called_ = 0;
  call_ended_.notify_all();
}

ConnectionManager::PartyPtr ConnectionManager::find(Purpose purpose, const Digest& context) {
  const MutexLock lock(mutex_);
  const auto found = parties_.find({purpose, context});
  return found == parties_.end() ? nullptr : found->second;
}

void ConnectionManager::listen(FileDescriptor listener) {
  if (is_forked()) return;
  const auto shared = std::make_shared<FileDescriptor>(std::move(listener));
  const MutexLock lock(mutex_);
  order([this, shared] { connector_.listen(std::move(*shared)); });
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
  if (const auto found = services_.find(id); found != services_.end()) {
    const Party& party = found->second->party;
    // Without the call-backs, which may hold much.
    const auto ended = std::make_shared<const Party>(party);
    const PartyKey key{party.purpose, hash_of_context(party.context)};
    order([this, forgotten = party_of(found->second)] { connector_.forget_dials(*forgotten); });
    services_.erase(found);
    parties_[key] = ended;
    ended_.emplace_back(key, ended);
    forget_oldest();
  }
  if (std::this_thread::get_id() == thread_.get_id()) return;
  while (called_ == id) call_ended_.wait(mutex_);
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
  const DialArgs args{.party = party_of(found->second),
                      .rank = rank,
                      .endpoints = {route.to},
                      .deadline = deadline,
                      .source = route.from};
  order([this, args] { connector_.dial(args); });
}

Result<std::shared_ptr<ConnectionManager>> ConnectionManager::create(
    int ranks, std::shared_ptr<ConnectionBudget> budget) {
  FileDescriptor wake = make_event();
  if (!wake.valid()) return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  FileDescriptor watched(::epoll_create1(EPOLL_CLOEXEC));
  if (!watched.valid()) return errno_status("cannot make an epoll", Code::kResourceExhausted);
  // The thread does not exist in a forked child, which leaks what the thread may have held.
  return std::shared_ptr<ConnectionManager>(
      new ConnectionManager(std::move(wake), std::move(watched), ranks, std::move(budget)),
      [](const ConnectionManager* made) {
        if (!made->is_forked()) delete made;
      });
}

}  // namespace ronde::net
