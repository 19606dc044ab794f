// Point-to-point over one connection per peer, made when a transfer with the peer is first posted.
// All posted transfers move on during any wait, in both directions. So two ranks that send to each
// other do not block each other.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/transport/peer_link.h"
#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/ports/transport.h"

namespace ronde::net {

/// The names of lost peers in errors, by rank of the group, ascending.
using PeerNames = std::vector<FailedRank>;

/// The parts of a transport.
struct TcpTransportArgs {
  int rank = 0;  ///< In the group.
  PeerNames names;
  Party party;  ///< Of this rank, for connections of this group alone.
  std::shared_ptr<ConnectionManager> manager;
  /// The address at which a rank accepts connections.
  std::function<Result<Endpoint>(const FailedRank& who)> address;
  Duration timeout{};  ///< For one connection.
};

class TcpTransport final : public Transport {
 public:
  /// Errors: kResourceExhausted.
  static Result<std::unique_ptr<TcpTransport>> create(TcpTransportArgs args);
  ~TcpTransport() override;

  [[nodiscard]] int rank() const noexcept override { return args_.rank; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(peers_.size()); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

 private:
  /// News of the manager's thread for this one.
  struct Mail {
    std::vector<Link> links;
    std::vector<std::pair<int, Status>> failures;  // by rank of the job
  };
  struct Peer {
    explicit Peer(int the_rank, bool dials) : rank(the_rank), link(dials) {}

    int rank;  // in the group
    PeerLink link;
    bool dialing = false;
    TimePoint waits_since = kForever;  // for the peer to dial
  };

  TcpTransport(TcpTransportArgs args, FileDescriptor wake);

  void put_link(Link link) RONDE_EXCLUDES(mutex_);
  void put_failure(int job_rank, const Status& why) RONDE_EXCLUDES(mutex_);
  Status take_mail() RONDE_EXCLUDES(mutex_);
  void take_link(Link link);
  Status take_failure(int job_rank, const Status& why);

  [[nodiscard]] bool valid_peer(int rank) const noexcept;
  [[nodiscard]] int position(int job_rank) const noexcept;
  Peer& peer(int rank);
  [[nodiscard]] bool done(TransferId id) const noexcept;
  Status dial(Peer& peer);
  Status connect(Peer& peer);
  Status watch_late_peers();
  Status step(TransferId id, const AbortToken& abort);
  Status progress(bool& moved);
  void sleep(const AbortToken& abort);

  [[nodiscard]] std::string name_of(int rank) const;
  [[nodiscard]] Status gone(int rank, std::string_view what) const;
  [[nodiscard]] Status judge(int rank, const Status& error) const;
  /// Why a connection broke, as the control channel knows it, or else as it looks from here.
  Status verdict(const AbortToken& abort) const;

  const TcpTransportArgs args_;
  const pid_t process_ = ::getpid();
  const FileDescriptor wake_;  // readable: mail, or an abort
  ConnectionManager::ServiceId service_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank of the group; null: never used
  std::vector<Peer*> used_;
  Status broken_;  ///< Nothing moves any more; what is posted meanwhile waits for the verdict.
  Status told_;    ///< What wait() has said of it.
  std::atomic<bool> has_mail_{false};
  Mutex mutex_;
  Mail mail_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde::net
