// All connections of this process with other ranks are made here: one listener, and one thread that
// accepts, dials and authenticates. It sleeps while nothing is to do, and serves callers while
// their own threads compute.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backends/net/link/counted_connection.h"
#include "backends/net/link/idle_connections.h"
#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/handshake.h"
#include "core/base/clock.h"
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
  ServiceId add(Service service);

  /// Ends the service: its dials end, and connections that ranks still dial are closed at once,
  /// which they see as a closed connection. Once this returns, none of its call-backs runs or will
  /// be called. Blocks: while one runs, unless called from it.
  void remove(ServiceId id);

  /// Connects with `rank`, again and again until it admits this one or `deadline` has passed. Ends
  /// with one call of on_link or on_failure. Blocks: never.
  void dial(ServiceId id, int rank, const Route& route, TimePoint deadline = kForever);

  /// True where the number of connections is limited.
  [[nodiscard]] bool limited() const noexcept;

  /// Says that connections may be idle now: its thread soon tends them, and ends some if there are
  /// too many. Does nothing without a limit. Blocks: never.
  void settle() noexcept;

  /// Has the service's connections tended once `fd` becomes readable; good for one time.
  void watch(ServiceId id, int fd) noexcept;

 private:
  class Impl;
  explicit ConnectionManager(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ronde::net
