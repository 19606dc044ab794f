#include "backends/net/data/tcp_backend.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/net/connection/secret.h"
#include "backends/net/data/tcp_transport.h"
#include "core/base/os/interfaces.h"

namespace ronde::net {
namespace {

constexpr std::chrono::hours kNoLimit{24 * 365};

class TcpGroup final : public Communicator {
 public:
  explicit TcpGroup(std::unique_ptr<Transport> transport)
      : Communicator({.name = "tcp"}), transport_(std::move(transport)) {}

  Status run(const Work&, DeviceStream, const AbortToken&) override {
    return {Code::kUnsupported, "tcp carries messages; it has no collectives of its own"};
  }
  [[nodiscard]] Transport* transport() noexcept override { return transport_.get(); }

 private:
  const std::unique_ptr<Transport> transport_;
};

PeerNames names_of(const GroupSpec& group) {
  PeerNames names;
  for (const int rank : group.ranks) names.push_back(group.topology->who(rank));
  return names;
}

Identity identity_for(const TcpBackendArgs& args, const GroupSpec& group) {
  Identity identity = args.identity;
  identity.purpose = Purpose::kData;
  if (group.on_one_host()) identity.encryption = Encryption::kOff;
  identity.context = fmt::format("{}\ngroup {}", args.identity.context, group.key);
  return identity;
}

/// The address at which a process of this host accepts connections.
Endpoint endpoint_inside(const TcpBackendArgs& args, const FailedRank& who) {
  return private_endpoint(
      fmt::format("data\n{}\n{}\n{}\n", args.identity.context, who.rank, who.pid), args.secret);
}

/// "eth0 (10.0.0.1)", where there are several; none where the kernel chooses the interface.
std::vector<std::string> names_of_interfaces(const TcpBackendArgs& args) {
  std::vector<std::string> names;
  if (args.routes.count() < 2) return names;
  for (const Endpoint& interface : args.routes.interfaces) {
    const auto found = interface_with(interface);
    names.push_back(found ? fmt::format("{} ({})", found->name, interface.host())
                          : interface.host());
  }
  return names;
}

/// How long an outage may last. An interface that dies among several shows by its silence alone,
/// where connections do not heal too.
Duration outage_limit(const TcpBackendArgs& args) {
  if (args.reconnect_limit > Duration::zero()) return args.reconnect_limit;
  return args.link_timeout > Duration::zero() ? args.link_timeout : Duration(kNoLimit);
}

/// Connections inside a host do not break.
bool heals(const TcpBackendArgs& args, const GroupSpec& group) {
  const bool wanted = args.reconnect_limit > Duration::zero() || args.routes.count() > 1;
  return wanted && !group.on_one_host();
}

}  // namespace

Status TcpBackend::viable(const GroupSpec& group) {
  if (group.on_one_host() || args_->manager != nullptr) return {};
  return {Code::kUnavailable, "no address to use between hosts is known"};
}

Result<std::shared_ptr<ConnectionManager>> TcpBackend::manager_for(const GroupSpec& group) {
  if (!group.on_one_host()) return args_->manager;
  const MutexLock lock(mutex_);
  if (inside_ != nullptr) return inside_;
  const FailedRank self{args_->identity.rank, {}, args_->identity.self.pid};
  RONDE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_on(endpoint_inside(*args_, self)));
  auto manager = args_->manager;
  if (manager == nullptr) {
    RONDE_ASSIGN_OR_RETURN(manager, ConnectionManager::create(args_->identity.size));
  }
  manager->listen(std::move(listener));
  return inside_ = std::move(manager);
}

Result<std::unique_ptr<Communicator>> TcpBackend::open(const GroupSpec& group, Exchange&) {
  RONDE_ASSIGN_OR_RETURN(auto manager, manager_for(group));
  auto route = [args = args_, inside = group.on_one_host()](const FailedRank& who,
                                                            std::size_t interface) {
    return inside ? Route{endpoint_inside(*args, who)} : args->routes.to(who.rank, interface);
  };
  const TcpBackendArgs& args = *args_;
  const bool healing = heals(args, group);
  RONDE_ASSIGN_OR_RETURN(
      auto transport,
      make_tcp_transport(
          {.members = Members(group.rank, names_of(group),
                              healing ? names_of_interfaces(args) : std::vector<std::string>()),
           .identity = identity_for(args, group),
           .manager = std::move(manager),
           .between_hosts = !group.on_one_host(),
           .route = std::move(route),
           .timeout = args.timeout,
           .late_after = args.late_after,
           .window_bytes = healing ? args.window_bytes : 0,
           .limit = outage_limit(args),
           .needs_all_interfaces = args.reconnect_limit == Duration::zero(),
           .abort = group.abort,
           .observers = args.observers}));
  return std::unique_ptr<Communicator>(std::make_unique<TcpGroup>(std::move(transport)));
}

}  // namespace ronde::net
