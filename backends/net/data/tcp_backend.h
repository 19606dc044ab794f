// Ronde's own data plane between hosts: authenticated connections, each made when two ranks of a
// group first exchange something. Inside a host it uses abstract Unix sockets, so that a job of one
// host opens no network port.
#pragma once

#include <memory>
#include <string_view>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/socket.h"
#include "backends/net/mesh/connection_manager.h"
#include "core/base/mutex.h"
#include "core/ports/backend.h"
#include "core/ports/connection_counts.h"

namespace ronde::net {

inline constexpr std::size_t kHealingWindowBytes = std::size_t{8} << 20;

/// The needs of connections of this rank.
struct TcpBackendArgs {
  Identity identity;  ///< Of the job, with keys; purpose and context are set for each group.
  Secret secret = {};
  std::shared_ptr<ConnectionManager> manager = nullptr;  ///< Null for a job of one host.
  Routes routes = {};                                    ///< Several: data is spread over them.
  Duration timeout{};                                    ///< For one connection.
  /// A peer that has not dialed for so long may have left the group. A connection to it shows it.
  Duration late_after = std::chrono::seconds(1);
  Duration reconnect_limit{};                      ///< Between hosts; 0: connections do not heal.
  Duration link_timeout{};                         ///< For an interface among several; 0: none.
  std::size_t window_bytes = kHealingWindowBytes;  ///< For those that do.
  ConnectionObservers observers = {};              ///< Of those that heal.
};

class TcpBackend final : public Backend {
 public:
  explicit TcpBackend(TcpBackendArgs args)
      : args_(std::make_shared<const TcpBackendArgs>(std::move(args))) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "tcp"; }
  Status viable(const GroupSpec& group) override;
  /// Connects with no rank yet.
  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override;

 private:
  Result<std::shared_ptr<ConnectionManager>> manager_for(const GroupSpec& group)
      RONDE_EXCLUDES(mutex_);

  const std::shared_ptr<const TcpBackendArgs> args_;
  Mutex mutex_;
  /// Once a group inside this host needs it: it accepts there too.
  std::shared_ptr<ConnectionManager> inside_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde::net
