// All connections of this process with other ranks are made here: one listener, and one thread that
// accepts, dials and authenticates. It sleeps while nothing is to do, and serves callers while
// their own threads compute.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

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
  };

  /// Accepts at `listener` for a job of `ranks` ranks, which bounds the handshakes at a time.
  /// Errors: kResourceExhausted.
  static Result<std::shared_ptr<ConnectionManager>> create(FileDescriptor listener, int ranks);
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
  void dial(ServiceId id, int rank, const Endpoint& endpoint, TimePoint deadline = kForever);

 private:
  class Impl;
  explicit ConnectionManager(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ronde::net
