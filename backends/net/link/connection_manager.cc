#include "backends/net/link/connection_manager.h"

#include <unistd.h>

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

}  // namespace

class ConnectionManager::Impl {
 public:
  Impl(FileDescriptor listener, FileDescriptor wake, int ranks);
  ~Impl();

  ServiceId add(Service service) RONDE_EXCLUDES(mutex_);
  void remove(ServiceId id) RONDE_EXCLUDES(mutex_);
  void dial(ServiceId id, DialArgs args) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] pid_t process() const noexcept { return process_; }

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
  [[nodiscard]] PartyPtr find(Purpose purpose, const Digest& context) RONDE_EXCLUDES(mutex_);
  void forget_oldest() RONDE_REQUIRES(mutex_);

  const pid_t process_ = ::getpid();
  const FileDescriptor wake_;
  std::atomic<bool> stop_{false};
  Connector connector_;  // the manager's thread only
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

ConnectionManager::Impl::Impl(FileDescriptor listener, FileDescriptor wake, int ranks)
    : wake_(std::move(wake)),
      connector_([this](Purpose purpose, const Digest& context) { return find(purpose, context); },
                 ranks) {
  connector_.listen(std::move(listener));
  connector_.watch(kWake, wake_.get());
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
    auto event = connector_.next({});
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
  if (event.party == nullptr) return;
  const ServicePtr service = begin_call(event.party.get());
  if (service == nullptr) return;
  if (event.kind == ConnectorEvent::Kind::kAdmitted) {
    service->on_link({event.rank, std::move(event.stream), event.dialed});
  } else {
    service->on_failure(event.rank, event.status);
  }
  end_call();
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

Result<std::shared_ptr<ConnectionManager>> ConnectionManager::create(FileDescriptor listener,
                                                                     int ranks) {
  FileDescriptor wake = make_event();
  if (!wake.valid()) return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  return std::shared_ptr<ConnectionManager>(
      new ConnectionManager(std::make_unique<Impl>(std::move(listener), std::move(wake), ranks)));
}

ConnectionManager::ServiceId ConnectionManager::add(Service service) {
  return ::getpid() == impl_->process() ? impl_->add(std::move(service)) : 0;
}

void ConnectionManager::remove(ServiceId id) {
  if (::getpid() == impl_->process()) impl_->remove(id);
}

void ConnectionManager::dial(ServiceId id, int rank, const Endpoint& endpoint, TimePoint deadline) {
  if (::getpid() != impl_->process()) return;
  impl_->dial(id, {.party = nullptr, .rank = rank, .endpoint = endpoint, .deadline = deadline});
}

}  // namespace ronde::net
