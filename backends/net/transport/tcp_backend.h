// Ronde's own data plane between hosts: authenticated connections, made when a group is opened.
// Inside a host it uses abstract Unix sockets, so that a job of one host opens no network port.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/net/rendezvous/handshake.h"
#include "backends/net/rendezvous/socket.h"
#include "core/ports/backend.h"

namespace ronde::net {

/// What connections of this rank need.
struct TcpBackendArgs {
  Party party;  ///< Of the job, with keys; purpose and context are set for each group.
  Secret secret;
  Endpoint local;      ///< Where to listen between hosts, port 0; unset for a job of one host.
  Duration timeout{};  ///< For all connections of a group together.
};

class TcpBackend final : public Backend {
 public:
  explicit TcpBackend(TcpBackendArgs args) : args_(std::move(args)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "tcp"; }
  Status viable(const GroupSpec& group) override;
  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override;

 private:
  [[nodiscard]] Result<FileDescriptor> listen_for(const GroupSpec& group) const;
  [[nodiscard]] Party party_for(const GroupSpec& group) const;

  const TcpBackendArgs args_;
};

}  // namespace ronde::net
