// Point-to-point over one connection per peer, made when a transfer with the peer is first posted.
// All posted transfers move on during any wait, in both directions. So two ranks that send to each
// other do not block each other.
//
// Where the number of connections is limited, the manager's thread tends those that carry nothing,
// while the caller's thread computes. An idle one may end, and is made again when it is next used.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/transport/mailbox.h"
#include "backends/net/transport/tcp_peers.h"
#include "backends/net/transport/tcp_transport_args.h"
#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/ports/transport.h"

namespace ronde::net {

/// Threads: as Transport; the manager's thread tends idle connections.
class TcpTransport final : public Transport, private IdleConnections {
 public:
  /// Errors: kResourceExhausted.
  static Result<std::unique_ptr<TcpTransport>> create(TcpTransportArgs args);
  ~TcpTransport() override;

  [[nodiscard]] int rank() const noexcept override { return args_.members.rank(); }
  [[nodiscard]] int size() const noexcept override { return args_.members.size(); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

 private:
  TcpTransport(TcpTransportArgs args, FileDescriptor wake);

  void tend() override RONDE_EXCLUDES(state_);
  TimePoint least_recent_use() override RONDE_EXCLUDES(state_);
  void end_least_recent() override RONDE_EXCLUDES(state_);
  bool try_state() RONDE_TRY_ACQUIRE(true, state_);
  void deliver_rest() RONDE_NO_THREAD_SAFETY_ANALYSIS;
  void forget() RONDE_NO_THREAD_SAFETY_ANALYSIS;

  Status take_mail() RONDE_REQUIRES(state_);
  [[nodiscard]] Status check_peer(int rank) const;
  bool drive(TransferId id, const AbortToken& abort, std::vector<pollfd>& sleep_on)
      RONDE_EXCLUDES(state_);
  Status step(TransferId id, const AbortToken& abort, std::vector<pollfd>& sleep_on)
      RONDE_REQUIRES(state_);
  void list_waits(std::vector<pollfd>& sleep_on) const RONDE_REQUIRES(state_);
  void sleep(std::vector<pollfd>& sleep_on, const AbortToken& abort) const;

  /// Why a connection broke, as the control channel knows it, or else as it looks from here.
  Status verdict(const AbortToken& abort) RONDE_EXCLUDES(state_);

  const TcpTransportArgs args_;
  const pid_t process_ = ::getpid();
  Mailbox mailbox_;  // its wake-up is also for aborts
  ConnectionManager::ServiceId service_ = 0;
  Status told_;  // what wait() has said of `broken_`; the caller's thread only
  mutable Mutex state_;
  TcpPeers peers_ RONDE_GUARDED_BY(state_){args_, service_};
  // Nothing moves any more; what is posted meanwhile waits for the verdict.
  Status broken_ RONDE_GUARDED_BY(state_);
  bool waits_ RONDE_GUARDED_BY(state_) = false;  // the caller's thread is inside wait()
};

}  // namespace ronde::net
