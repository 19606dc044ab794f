// All connections of this process with other ranks are made here: one thread accepts, dials and
// authenticates. It sleeps while nothing is to do. It also tends connections that control frames
// use, and those of data that heal, or whose number is limited, while their callers compute.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/stream.h"
#include "backends/net/mesh/connection_budget.h"
#include "backends/net/mesh/connector.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// One connection to another rank of the job.
struct Link {
  int rank = -1;
  Stream stream;
  bool dialed = false;                              ///< By this process; else accepted.
  std::unique_ptr<CountedConnection> counted = {};  ///< Null where it does not count.
};

/// The idle connections of a service, which count in the budget. Called in the manager's thread,
/// without a lock of the manager. Blocks: never.
struct IdleConnections {
  /// When the one that was not used for longest was used; kForever: none may be ended.
  std::function<TimePoint()> least_recent_use;
  /// Asks the peer of that one to end it.
  std::function<void()> end_least_recent;
};

/// Makes authenticated connections for the services of this process. Threads: any, unless a member
/// says otherwise. Destroy it outside of call-backs. In a forked child it does nothing.
class ConnectionManager {
 public:
  /// Names a service; never 0.
  using ServiceId = std::uint64_t;

  /// A part of this process that has connections with other ranks.
  struct Service {
    /// Accepted connections find the service by the identity's purpose and context, which no other
    /// service of this process has.
    Identity identity;
    /// A connection was dialed or accepted. Called in the manager's thread: be quick, and do not
    /// wait for a thread that calls the manager. A peer that gave up its first connection during
    /// the handshake connects again: the last one counts.
    std::function<void(Link)> on_link;
    /// A dial has ended without a connection: kTimeout, or kRankFailure where the peer's process
    /// refuses connections, as it has ended. As on_link.
    std::function<void(int rank, const Status& why)> on_failure;
    /// Moves on what can move, and has the manager watch the connections. `rank`: that of the watch
    /// that ended; -1 where none did. Returns when it is to be called again, watched or not;
    /// kForever: not before that. As on_link, and blocks never. Empty: the service alone serves its
    /// connections.
    std::function<TimePoint(int rank)> tend = {};
    /// None: its connections do not count.
    std::optional<IdleConnections> idle = std::nullopt;
  };

  /// For a job of `ranks` ranks, which bounds the handshakes at a time. `budget` counts the
  /// connections of services with IdleConnections, and limits them; null: no count and no limit.
  /// `on_connected`: as ConnectionObservers has it.
  /// Errors: kResourceExhausted.
  static Result<std::shared_ptr<ConnectionManager>> create(
      int ranks, std::shared_ptr<ConnectionBudget> budget = nullptr,
      std::function<void(int rank, int fd)> on_connected = nullptr);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  /// Accepts connections from `listener` too from now on.
  void listen(FileDescriptor listener) RONDE_EXCLUDES(mutex_);

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
  [[nodiscard]] bool limited() const noexcept { return budget_ != nullptr && budget_->limited(); }

  /// Says that a caller has used connections: the thread soon tends all, and ends some if there are
  /// too many. Blocks: never.
  void settle() noexcept;

  /// Has the service tended once one of `events` (of poll) comes; good for one time. `rank`: for
  /// Service::tend. Not in a forked child.
  void watch(ServiceId id, int fd, int events, int rank = -1) noexcept;

 private:
  using ServicePtr = std::shared_ptr<const Service>;
  using IdentityPtr = std::shared_ptr<const Identity>;
  using IdentityKey = std::pair<Purpose, Digest>;

  ConnectionManager(FileDescriptor wake, FileDescriptor events, int ranks,
                    std::shared_ptr<ConnectionBudget> budget,
                    std::function<void(int rank, int fd)> on_connected);

  [[nodiscard]] bool is_forked() const noexcept { return ::getpid() != process_; }
  static IdentityPtr identity_of(const ServicePtr& service) {
    return {service, &service->identity};
  }

  void run() noexcept;
  void order(std::function<void()> what) RONDE_REQUIRES(mutex_);
  void take_orders() RONDE_EXCLUDES(mutex_);
  void serve_connector() RONDE_EXCLUDES(mutex_);
  void deliver(ConnectorEvent event) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] ServiceId service_of(const Identity& identity) RONDE_EXCLUDES(mutex_);
  void call(ServiceId id, auto body) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<ServiceId> tended() RONDE_EXCLUDES(mutex_);
  void tend(ServiceId id, int rank = -1) RONDE_EXCLUDES(mutex_);
  void wait_and_tend(TimePoint deadline) RONDE_EXCLUDES(mutex_);
  void end_some() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] ServiceId least_recently_used() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] TimePoint tend_when_due() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] IdentityPtr find(Purpose purpose, const Digest& context) RONDE_EXCLUDES(mutex_);
  void forget_oldest() RONDE_REQUIRES(mutex_);

  const pid_t process_ = ::getpid();
  const FileDescriptor wake_;
  const FileDescriptor events_;  // an epoll of tended connections and all else
  const std::shared_ptr<ConnectionBudget> budget_;
  const std::function<void(int rank, int fd)> on_connected_;  // may be null
  std::atomic<bool> stop_{false};
  std::atomic<bool> unsettled_{false};
  // The manager's thread only.
  Connector connector_;
  TimePoint settle_at_ = kForever;
  std::map<ServiceId, TimePoint> tend_at_;
  Mutex mutex_;
  CondVar call_ended_;
  std::map<ServiceId, ServicePtr> services_ RONDE_GUARDED_BY(mutex_);
  std::map<IdentityKey, IdentityPtr> identities_ RONDE_GUARDED_BY(mutex_);  // of `ended_` too
  std::deque<std::pair<IdentityKey, IdentityPtr>> ended_ RONDE_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> orders_ RONDE_GUARDED_BY(mutex_);  // for the thread
  ServiceId called_ RONDE_GUARDED_BY(mutex_) = 0;                       // its call-back runs
  ServiceId last_id_ RONDE_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace ronde::net
