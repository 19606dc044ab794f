#include "backends/net/mesh/connection_manager.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "core/base/log.h"
#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

/// Ended services that are remembered, so that a rank that still dials one learns of its end.
constexpr std::size_t kMostEnded = 256;
/// The event of an order, or of the connector's sockets.
constexpr std::uint64_t kWoken = 0;
/// Connections are tended so long after a caller has used one, all at once.
constexpr std::chrono::milliseconds kSettleTime{20};

/// The time for epoll_wait(), rounded up, a minute at most.
int milliseconds_until(TimePoint time) {
  const auto left = std::clamp<Duration>(time - now(), Duration::zero(), std::chrono::minutes(1));
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

}  // namespace

ConnectionManager::ConnectionManager(FileDescriptor wake, FileDescriptor events, int ranks,
                                     std::shared_ptr<ConnectionBudget> budget,
                                     std::function<void(int rank, int fd)> on_connected)
    : wake_(std::move(wake)),
      events_(std::move(events)),
      budget_(std::move(budget)),
      on_connected_(std::move(on_connected)),
      connector_([this](Purpose purpose, const Digest& context) { return find(purpose, context); },
                 ranks) {
  epoll_event woken{.events = EPOLLIN, .data = {.u64 = kWoken}};
  (void)::epoll_ctl(events_.get(), EPOLL_CTL_ADD, wake_.get(), &woken);
  (void)::epoll_ctl(events_.get(), EPOLL_CTL_ADD, connector_.events().get(), &woken);
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
  while (!stop_.load()) {
    take_orders();
    wait_and_tend(connector_.next_due(tend_when_due()));
  }
}

void ConnectionManager::serve_connector() {
  while (true) {
    auto event = connector_.next(TimePoint());
    if (!event.ok()) {
      log(LogLevel::kWarning, "a connection was refused: {}", event.status().message());
      if (event.status().code() == Code::kResourceExhausted) return;
    } else if (event->kind == ConnectorEvent::Kind::kTimeout) {
      return;
    } else {
      deliver(std::move(*event));
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
  if (event.identity == nullptr) return;
  const ServiceId id = service_of(*event.identity);
  call(id, [&](const Service& service) {
    if (event.kind != ConnectorEvent::Kind::kAdmitted) {
      return service.on_failure(event.rank, event.status);
    }
    if (on_connected_) on_connected_(event.rank, event.stream.fd());
    Link link{event.rank, std::move(event.stream), event.dialed};
    if (service.idle && budget_) {
      link.counted = std::make_unique<CountedConnection>(budget_, event.took);
    }
    service.on_link(std::move(link));
  });
  tend(id);
}

void ConnectionManager::settle() noexcept {
  if (unsettled_.load(std::memory_order_relaxed) || is_forked()) return;
  if (!unsettled_.exchange(true)) notify_event(wake_.get());
}

void ConnectionManager::watch(ServiceId id, int fd, int events, int rank) noexcept {
  static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT);
  epoll_event event{};
  event.events = static_cast<std::uint32_t>(events) | EPOLLONESHOT;
  event.data.u64 = (id << 32) | static_cast<std::uint32_t>(rank);
  if (::epoll_ctl(events_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return;
  (void)::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
}

/// Returns when the next time comes.
TimePoint ConnectionManager::tend_when_due() {
  const TimePoint time = now();
  std::vector<ServiceId> due;
  if (unsettled_.load()) settle_at_ = std::min<TimePoint>(settle_at_, time + kSettleTime);
  if (settle_at_ <= time) {
    settle_at_ = kForever;
    unsettled_.store(false);
    due = tended();
  }
  for (const auto& [id, at] : tend_at_) {
    if (at <= time) due.push_back(id);
  }
  for (const ServiceId id : due) tend(id);
  end_some();
  TimePoint next = settle_at_;
  for (const auto& [id, at] : tend_at_) next = std::min(next, at);
  return next;
}

void ConnectionManager::tend(ServiceId id, int rank) {
  TimePoint next = kForever;
  call(id, [&](const Service& service) {
    if (service.tend) next = service.tend(rank);
  });
  if (next == kForever) {
    tend_at_.erase(id);
  } else {
    tend_at_[id] = next;
  }
}

void ConnectionManager::wait_and_tend(TimePoint deadline) {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()),
                                 milliseconds_until(deadline));
  std::array<std::uint64_t, events.size()> ready{};
  const auto ready_end =
      std::transform(events.begin(), events.begin() + std::max(count, 0), ready.begin(),
                     [](const epoll_event& event) { return event.data.u64; });
  std::sort(ready.begin(), ready_end);
  const auto last = std::unique(ready.begin(), ready_end);
  for (auto it = ready.begin(); it != last; ++it) {
    if (*it != kWoken) tend(*it >> 32, static_cast<int>(static_cast<std::uint32_t>(*it)));
  }
  const bool woken = last != ready.begin() && ready.front() == kWoken;
  if (woken) clear_event(wake_.get());
  if (woken || connector_.next_due() <= now()) serve_connector();
}

/// Ends idle connections until no more than the limit stay, the least recently used first.
void ConnectionManager::end_some() {
  if (!limited()) return;
  for (int left = budget_->excess(); left > 0; --left) {
    const ServiceId id = least_recently_used();
    if (id == 0) return;
    call(id, [](const Service& service) { service.idle->end_least_recent(); });
  }
}

/// The service whose idle connection was not used for longest; 0 where none is idle.
ConnectionManager::ServiceId ConnectionManager::least_recently_used() {
  ServiceId least = 0;
  TimePoint least_use = kForever;
  for (const ServiceId id : tended()) {
    call(id, [&](const Service& service) {
      if (!service.idle) return;
      const TimePoint use = service.idle->least_recent_use();
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
    if (service->tend) ids.push_back(id);
  }
  return ids;
}

/// 0 where it has been removed.
ConnectionManager::ServiceId ConnectionManager::service_of(const Identity& identity) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(
      services_, [&](const auto& entry) { return &entry.second->identity == &identity; });
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

ConnectionManager::IdentityPtr ConnectionManager::find(Purpose purpose, const Digest& context) {
  const MutexLock lock(mutex_);
  const auto found = identities_.find({purpose, context});
  return found == identities_.end() ? nullptr : found->second;
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
  identities_[{kept->identity.purpose, hash_of_context(kept->identity.context)}] =
      identity_of(kept);
  return last_id_;
}

void ConnectionManager::remove(ServiceId id) {
  if (is_forked()) return;
  const MutexLock lock(mutex_);
  if (const auto found = services_.find(id); found != services_.end()) {
    const Identity& identity = found->second->identity;
    // Without the call-backs, which may hold much.
    const auto ended = std::make_shared<const Identity>(identity);
    const IdentityKey key{identity.purpose, hash_of_context(identity.context)};
    order([this, forgotten = identity_of(found->second)] { connector_.forget_dials(*forgotten); });
    services_.erase(found);
    identities_[key] = ended;
    ended_.emplace_back(key, ended);
    forget_oldest();
  }
  if (std::this_thread::get_id() == thread_.get_id()) return;
  while (called_ == id) call_ended_.wait(mutex_);
}

void ConnectionManager::forget_oldest() {
  if (ended_.size() <= kMostEnded) return;
  const auto& [key, identity] = ended_.front();
  const auto found = identities_.find(key);
  // The same context may have a new service.
  if (found != identities_.end() && found->second == identity) identities_.erase(found);
  ended_.pop_front();
}

void ConnectionManager::dial(ServiceId id, int rank, const Route& route, TimePoint deadline) {
  if (is_forked()) return;
  const MutexLock lock(mutex_);
  const auto found = services_.find(id);
  if (found == services_.end()) return;
  const DialArgs args{.identity = identity_of(found->second),
                      .rank = rank,
                      .endpoints = {route.to},
                      .deadline = deadline,
                      .source = route.from};
  order([this, args] { connector_.dial(args); });
}

Result<std::shared_ptr<ConnectionManager>> ConnectionManager::create(
    int ranks, std::shared_ptr<ConnectionBudget> budget,
    std::function<void(int rank, int fd)> on_connected) {
  FileDescriptor wake = make_event();
  if (!wake.valid()) return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  FileDescriptor events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events.valid()) return errno_status("cannot make an epoll", Code::kResourceExhausted);
  // The thread does not exist in a forked child, which leaks what the thread may have held.
  std::shared_ptr<ConnectionManager> made(
      new ConnectionManager(std::move(wake), std::move(events), ranks, std::move(budget),
                            std::move(on_connected)),
      [](const ConnectionManager* manager) {
        if (!manager->is_forked()) delete manager;
      });
  if (made->connector_.events().valid()) return made;
  return errno_status("cannot make an epoll", Code::kResourceExhausted);
}

}  // namespace ronde::net
