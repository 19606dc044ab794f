#include "backends/net/link/connection_manager.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "backends/net/rendezvous/connector.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
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

class ConnectionManager::Impl {
 public:
  struct Parts {
    std::vector<FileDescriptor> listeners;
    FileDescriptor wake;
    FileDescriptor idle;  // an epoll of idle connections; not valid: no limit
    int ranks = 0;
    std::shared_ptr<ConnectionBudget> budget;
  };
  explicit Impl(Parts parts);
  ~Impl();

  ServiceId add(Service service) RONDE_EXCLUDES(mutex_);
  void remove(ServiceId id) RONDE_EXCLUDES(mutex_);
  void dial(ServiceId id, DialArgs args) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] pid_t process() const noexcept { return process_; }
  [[nodiscard]] bool limited() const noexcept { return idle_.valid(); }
  void settle() noexcept;
  void watch(ServiceId id, int fd) noexcept;

 private:
  using ServicePtr = std::shared_ptr<const Service>;
  using PartyPtr = std::shared_ptr<const Party>;
  using PartyKey = std::pair<Purpose, Digest>;

  static PartyPtr party_of(const ServicePtr& service) { return {service, &service->party}; }

  void run() noexcept;
  void take_orders() RONDE_EXCLUDES(mutex_);
  void deliver(ConnectorEvent event) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] ServicePtr begin_call(const Party* party) RONDE_EXCLUDES(mutex_);
  void end_call() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] Link link_of(ConnectorEvent event, bool counts) const;
  [[nodiscard]] std::vector<PartyPtr> with_idle(ServiceId only = 0) RONDE_EXCLUDES(mutex_);
  void call_idle(const PartyPtr& party, auto call) RONDE_EXCLUDES(mutex_);
  void tend(ServiceId only = 0) RONDE_EXCLUDES(mutex_);
  void tend_readable() RONDE_EXCLUDES(mutex_);
  void end_some() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] PartyPtr least_recently_used() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] TimePoint settle_when_due() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] PartyPtr find(Purpose purpose, const Digest& context) RONDE_EXCLUDES(mutex_);
  void forget_oldest() RONDE_REQUIRES(mutex_);

  const pid_t process_ = ::getpid();
  const FileDescriptor wake_;
  const FileDescriptor idle_;
  const std::shared_ptr<ConnectionBudget> budget_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> unsettled_{false};
  TimePoint settle_at_ = kForever;  // the manager's thread only
  Connector connector_;             // the manager's thread only
  Mutex mutex_;
  CondVar call_ended_;
  std::map<ServiceId, ServicePtr> services_ RONDE_GUARDED_BY(mutex_);
  std::map<PartyKey, PartyPtr> parties_ RONDE_GUARDED_BY(mutex_);  // of `ended_` too
  std::deque<std::pair<PartyKey, PartyPtr>> ended_ RONDE_GUARDED_BY(mutex_);
  std::vector<DialArgs> dials_ RONDE_GUARDED_BY(mutex_);      // for the thread to begin
  std::vector<PartyPtr> forgotten_ RONDE_GUARDED_BY(mutex_);  // whose dials it must end
  const Party* called_ RONDE_GUARDED_BY(mutex_) = nullptr;    // its call-back runs
  ServiceId last_id_ RONDE_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

ConnectionManager::Impl::Impl(Parts parts)
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

ConnectionManager::Impl::~Impl() {
  stop_.store(true);
  notify_event(wake_.get());
  thread_.join();
}

void ConnectionManager::Impl::run() noexcept {
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

void ConnectionManager::Impl::take_orders() {
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

void ConnectionManager::Impl::deliver(ConnectorEvent event) {
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

Link ConnectionManager::Impl::link_of(ConnectorEvent event, bool counts) const {
  Link link{event.rank, std::move(event.stream), event.dialed};
  if (!counts || !budget_) return link;
  link.counted = CountedConnection(budget_);
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(event.took).count();
  budget_->counts().opening_ns.fetch_add(static_cast<std::uint64_t>(took));
  return link;
}

void ConnectionManager::Impl::settle() noexcept {
  if (unsettled_.load(std::memory_order_relaxed)) return;
  if (!unsettled_.exchange(true)) notify_event(wake_.get());
}

/// Returns when the next time comes.
TimePoint ConnectionManager::Impl::settle_when_due() {
  if (settle_at_ == kForever && unsettled_.load()) settle_at_ = now() + kSettleTime;
  if (now() < settle_at_) return settle_at_;
  settle_at_ = kForever;
  unsettled_.store(false);
  tend();
  end_some();
  return kForever;
}

void ConnectionManager::Impl::watch(ServiceId id, int fd) noexcept {
  if (!limited()) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = id;
  if (::epoll_ctl(idle_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return;
  (void)::epoll_ctl(idle_.get(), EPOLL_CTL_ADD, fd, &event);
}

/// The parties of services whose connections count: all, or that of one service.
std::vector<ConnectionManager::Impl::PartyPtr> ConnectionManager::Impl::with_idle(ServiceId only) {
  std::vector<PartyPtr> parties;
  const MutexLock lock(mutex_);
  for (const auto& [id, service] : services_) {
    const bool meant = only == 0 || only == id;
    if (meant && service->idle != nullptr) parties.push_back(party_of(service));
  }
  return parties;
}

void ConnectionManager::Impl::call_idle(const PartyPtr& party, auto call) {
  const ServicePtr service = begin_call(party.get());
  if (service == nullptr) return;
  call(*service->idle);
  end_call();
}

void ConnectionManager::Impl::tend(ServiceId only) {
  for (const PartyPtr& party : with_idle(only)) {
    call_idle(party, [](IdleConnections& idle) { idle.tend(); });
  }
}

void ConnectionManager::Impl::tend_readable() {
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
void ConnectionManager::Impl::end_some() {
  if (!limited()) return;
  for (int left = budget_->excess(); left > 0; --left) {
    const PartyPtr party = least_recently_used();
    if (party == nullptr) return;
    call_idle(party, [](IdleConnections& idle) { idle.end_least_recent(); });
  }
}

/// The party whose idle connection was not used for longest; null where none is idle.
ConnectionManager::Impl::PartyPtr ConnectionManager::Impl::least_recently_used() {
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
ConnectionManager::Impl::ServicePtr ConnectionManager::Impl::begin_call(const Party* party) {
  const MutexLock lock(mutex_);
  for (const auto& [id, service] : services_) {
    if (&service->party != party) continue;
    called_ = party;
    return service;
  }
  return nullptr;
}

void ConnectionManager::Impl::end_call() {
  const MutexLock lock(mutex_);
  called_ = nullptr;
  call_ended_.notify_all();
}

ConnectionManager::Impl::PartyPtr ConnectionManager::Impl::find(Purpose purpose,
                                                                const Digest& context) {
  const MutexLock lock(mutex_);
  const auto found = parties_.find({purpose, context});
  return found == parties_.end() ? nullptr : found->second;
}

ConnectionManager::ServiceId ConnectionManager::Impl::add(Service service) {
  const auto kept = std::make_shared<const Service>(std::move(service));
  const MutexLock lock(mutex_);
  services_[++last_id_] = kept;
  parties_[{kept->party.purpose, hash_of_context(kept->party.context)}] = party_of(kept);
  return last_id_;
}

void ConnectionManager::Impl::remove(ServiceId id) {
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

void ConnectionManager::Impl::forget_oldest() {
  if (ended_.size() <= kMostEnded) return;
  const auto& [key, party] = ended_.front();
  const auto found = parties_.find(key);
  // The same context may have a new service.
  if (found != parties_.end() && found->second == party) parties_.erase(found);
  ended_.pop_front();
}

void ConnectionManager::Impl::dial(ServiceId id, DialArgs args) {
  const MutexLock lock(mutex_);
  const auto found = services_.find(id);
  if (found == services_.end()) return;
  args.party = party_of(found->second);
  dials_.push_back(std::move(args));
  notify_event(wake_.get());
}

ConnectionManager::ConnectionManager(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ConnectionManager::~ConnectionManager() {
  // The thread does not exist in a forked child, which leaks what the thread may have held.
  if (::getpid() != impl_->process()) (void)impl_.release();
}

Result<std::shared_ptr<ConnectionManager>> ConnectionManager::create(
    FileDescriptor listener, int ranks, std::shared_ptr<ConnectionBudget> budget) {
  std::vector<FileDescriptor> one;
  one.push_back(std::move(listener));
  return create(std::move(one), ranks, std::move(budget));
}

Result<std::shared_ptr<ConnectionManager>> ConnectionManager::create(
    std::vector<FileDescriptor> listeners, int ranks, std::shared_ptr<ConnectionBudget> budget) {
  Impl::Parts parts{std::move(listeners), make_event(), {}, ranks, std::move(budget)};
  if (!parts.wake.valid()) {
    return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  }
  if (parts.budget != nullptr && parts.budget->limited()) {
    parts.idle.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!parts.idle.valid()) return errno_status("cannot make an epoll", Code::kResourceExhausted);
  }
  return std::shared_ptr<ConnectionManager>(
      new ConnectionManager(std::make_unique<Impl>(std::move(parts))));
}

ConnectionManager::ServiceId ConnectionManager::add(Service service) {
  return ::getpid() == impl_->process() ? impl_->add(std::move(service)) : 0;
}

void ConnectionManager::remove(ServiceId id) {
  if (::getpid() == impl_->process()) impl_->remove(id);
}

void ConnectionManager::dial(ServiceId id, int rank, const Route& route, TimePoint deadline) {
  if (::getpid() != impl_->process()) return;
  impl_->dial(id, {.party = nullptr,
                   .rank = rank,
                   .endpoint = route.to,
                   .deadline = deadline,
                   .source = route.from});
}

bool ConnectionManager::limited() const noexcept { return impl_->limited(); }

void ConnectionManager::settle() noexcept {
  if (limited() && ::getpid() == impl_->process()) impl_->settle();
}

void ConnectionManager::watch(ServiceId id, int fd) noexcept {
  if (::getpid() == impl_->process()) impl_->watch(id, fd);
}

}  // namespace ronde::net
