// All connections of this process with other ranks are made here: one listener, and one thread that
// accepts, dials and authenticates. It sleeps while nothing is to do, and serves callers while
// their own threads compute.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/stream.h"
#include "backends/net/mesh/connection_budget.h"
#include "backends/net/mesh/connector.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// One connection to another rank of the job.
struct Link {
  int rank = -1;
  Stream stream;
  bool dialed = false;  ///< By this process; else accepted.
  CountedConnection counted = {};
};

/// Makes authenticated connections for the services of this process. Threads: any, unless a member
/// says otherwise. Destroy it outside of call-backs. In a forked child it does nothing.
class ConnectionManager {
 public:
  /// Names a service; never 0.
  using ServiceId = std::uint64_t;

  /// A part of this process that has connections with other ranks.
  struct Service {
    /// Accepted connections find the service by the party's purpose and context, which no other
    /// service of this process has.
    Party party;
    /// A connection was dialed or accepted. Called in the manager's thread: be quick, and do not
    /// wait for a thread that calls the manager. A peer that gave up its first connection during
    /// the handshake connects again: the last one counts.
    std::function<void(Link)> on_link;
    /// A dial has ended without a connection: kTimeout, or kRankFailure where the peer's process
    /// refuses connections, as it has ended. As on_link.
    std::function<void(int rank, const Status& why)> on_failure;
    /// Its connections that carry nothing; it outlives the service. Null: they do not count in the
    /// budget.
    IdleConnections* idle = nullptr;
  };

  /// Accepts at `listeners` for a job of `ranks` ranks, which bounds the handshakes at a time.
  /// `budget` counts the connections of services that have IdleConnections, and limits them; null:
  /// no count and no limit. Errors: kResourceExhausted.
  static Result<std::shared_ptr<ConnectionManager>> create(
      std::vector<FileDescriptor> listeners, int ranks,
      std::shared_ptr<ConnectionBudget> budget = nullptr);
  /// At one.
  static Result<std::shared_ptr<ConnectionManager>> create(
      FileDescriptor listener, int ranks, std::shared_ptr<ConnectionBudget> budget = nullptr);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  /// Accepts connections for the service from now on.
  ServiceId add(Service service) RONDE_EXCLUDES(mutex_);

  /// Ends the service: its dials end, and connections that ranks still dial are closed at once,
  /// which they see as a closed connection. Once this returns, none of its call-backs runs or will
  /// be called. Blocks: while one runs, unless called from it.
  void remove(ServiceId id) RONDE_EXCLUDES(mutex_);

  /// Connects with `rank`, again and again until it admits this one or `deadline` has passed. Ends
  /// with one call of on_link or on_failure. Blocks: never.
  void dial(ServiceId id, int rank, const Route& route, TimePoint deadline = kForever)
      RONDE_EXCLUDES(mutex_);

  /// True where the number of connections is limited.
  [[nodiscard]] bool limited() const noexcept { return idle_.valid(); }

  /// Says that connections may be idle now: its thread soon tends them, and ends some if there are
  /// too many. Does nothing without a limit. Blocks: never.
  void settle() noexcept;

  /// Has the service's connections tended once `fd` becomes readable; good for one time.
  void watch(ServiceId id, int fd) noexcept;

 private:
  struct Parts {
    std::vector<FileDescriptor> listeners;
    FileDescriptor wake;
    FileDescriptor idle;  // an epoll of idle connections; not valid: no limit
    int ranks = 0;
    std::shared_ptr<ConnectionBudget> budget;
  };
  using ServicePtr = std::shared_ptr<const Service>;
  using PartyPtr = std::shared_ptr<const Party>;
  using PartyKey = std::pair<Purpose, Digest>;

  explicit ConnectionManager(Parts parts);

  [[nodiscard]] bool is_forked() const noexcept { return ::getpid() != process_; }
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

}  // namespace ronde::net
