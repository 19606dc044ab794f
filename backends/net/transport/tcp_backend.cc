#include "backends/net/transport/tcp_backend.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/net/transport/tcp_transport.h"
#include "core/base/bytes.h"
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
  for (const int rank : group.ranks) {
    const PeerInfo& peer = group.topology->peers[static_cast<std::size_t>(rank)];
    names.push_back({rank, peer.host_name, peer.pid});
  }
  return names;
}

Party party_for(const TcpBackendArgs& args, const GroupSpec& group) {
  Party party = args.party;
  party.purpose = Purpose::kData;
  if (group.on_one_host()) party.encryption = Encryption::kOff;
  party.context = fmt::format("{}\ngroup {}", args.party.context, group.key);
  return party;
}

/// The name at which a process of this host accepts connections; other users cannot guess it.
Endpoint endpoint_inside(const TcpBackendArgs& args, const FailedRank& who) {
  std::string what(as_text(args.secret.bytes()));
  what += fmt::format("\n{}\n{}\n{}", args.party.context, who.rank, who.pid);
  return abstract_endpoint("ronde-" + hex(digest(as_bytes(what))).substr(0, 40));
}

using CardNames = std::vector<std::string>;

/// "eth0 (10.0.0.1)"; "the network" where the kernel chooses the card.
CardNames names_of_cards(const TcpBackendArgs& args) {
  if (args.routes.count() < 2) return {"the network"};
  CardNames names;
  for (const Endpoint& card : args.routes.cards) {
    const auto found = interface_with(card);
    names.push_back(found ? fmt::format("{} ({})", found->name, card.host()) : card.host());
  }
  return names;
}

/// How long an outage may last. A card that dies among several shows by its silence alone, where
/// connections do not heal too.
Duration outage_limit(const TcpBackendArgs& args) {
  if (args.reconnect_limit > Duration::zero()) return args.reconnect_limit;
  return args.link_timeout > Duration::zero() ? args.link_timeout : Duration(kNoLimit);
}

/// Connections inside a host do not break.
Result<std::unique_ptr<Transport>> make_transport(
    const std::shared_ptr<const TcpBackendArgs>& shared, const GroupSpec& group,
    const TcpTransportArgs& needs) {
  const TcpBackendArgs& args = *shared;
  const bool plain_connections =
      args.reconnect_limit == Duration::zero() && args.routes.count() < 2;
  if (plain_connections || group.on_one_host()) {
    RONDE_ASSIGN_OR_RETURN(auto plain, TcpTransport::create(needs));
    return std::unique_ptr<Transport>(std::move(plain));
  }
  auto route = [shared](const FailedRank& who, std::size_t card) {
    return shared->routes.to(who.rank, card);
  };
  RONDE_ASSIGN_OR_RETURN(
      auto healing,
      HealingTransport::create({.members = needs.members,
                                .party = needs.party,
                                .manager = needs.manager,
                                .cards = names_of_cards(args),
                                .route = std::move(route),
                                .timeout = needs.timeout,
                                .limit = outage_limit(args),
                                .needs_all_cards = args.reconnect_limit == Duration::zero(),
                                .abort = group.abort,
                                .window_bytes = args.window_bytes,
                                .observers = args.observers}));
  return std::unique_ptr<Transport>(std::move(healing));
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
  const FailedRank self{args_->party.rank, {}, args_->party.self.pid};
  RONDE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_on(endpoint_inside(*args_, self)));
  RONDE_ASSIGN_OR_RETURN(inside_,
                         ConnectionManager::create(std::move(listener), args_->party.size));
  return inside_;
}

Result<std::unique_ptr<Communicator>> TcpBackend::open(const GroupSpec& group, Exchange&) {
  RONDE_ASSIGN_OR_RETURN(auto manager, manager_for(group));
  auto address = [args = args_,
                  inside = group.on_one_host()](const FailedRank& who) -> Result<Endpoint> {
    if (inside) return endpoint_inside(*args, who);
    RONDE_ASSIGN_OR_RETURN(const Route route, args->routes.to(who.rank, 0));
    return route.to;
  };
  const TcpTransportArgs needs{.members = Members(group.rank, names_of(group)),
                               .party = party_for(*args_, group),
                               .manager = std::move(manager),
                               .address = std::move(address),
                               .timeout = args_->timeout,
                               .late_after = args_->late_after};
  RONDE_ASSIGN_OR_RETURN(auto transport, make_transport(args_, group, needs));
  return std::unique_ptr<Communicator>(std::make_unique<TcpGroup>(std::move(transport)));
}

}  // namespace ronde::net
