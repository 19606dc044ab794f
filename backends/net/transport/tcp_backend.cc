#include "backends/net/transport/tcp_backend.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/net/rendezvous/tcp_rendezvous.h"
#include "backends/net/transport/tcp_transport.h"
#include "core/base/bytes.h"
#include "core/base/log.h"

namespace ronde::net {
namespace {

class TcpGroup final : public Communicator {
 public:
  explicit TcpGroup(TcpTransport transport)
      : Communicator({.name = "tcp"}), transport_(std::move(transport)) {}

  Status run(const Work&, DeviceStream, const AbortToken&) override {
    return {Code::kUnsupported, "tcp carries messages; it has no collectives of its own"};
  }
  [[nodiscard]] Transport* transport() noexcept override { return &transport_; }

 private:
  TcpTransport transport_;
};

PeerNames names_of(const GroupSpec& group) {
  PeerNames names;
  for (const int rank : group.ranks) {
    const PeerInfo& peer = group.topology->peers[static_cast<std::size_t>(rank)];
    names.push_back({rank, peer.host_name, peer.pid});
  }
  return names;
}

/// Streams by rank of the group, from links by rank of the job.
std::vector<Stream> by_position(const GroupSpec& group, std::vector<Link> links) {
  std::vector<Stream> streams(group.ranks.size());
  for (Link& link : links) {
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
      if (group.ranks[i] == link.rank) streams[i] = std::move(link.stream);
    }
  }
  return streams;
}

/// The address at which each rank listens. A rank that cannot listen sends an empty one.
Result<std::vector<std::string>> agree(const GroupSpec& group, Exchange& exchange,
                                       const Result<FileDescriptor>& listener) {
  std::string mine;
  if (listener.ok()) {
    const auto bound = local_endpoint(listener.value().get());
    if (bound.ok()) mine = bound->text();
  }
  RONDE_ASSIGN_OR_RETURN(std::vector<std::string> addresses, exchange.allgather(mine));
  if (!listener.ok()) return listener.status();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (!addresses[i].empty()) continue;
    return Status(Code::kUnavailable,
                  fmt::format("rank {} cannot listen for connections", group.ranks[i]));
  }
  return addresses;
}

}  // namespace

Status TcpBackend::viable(const GroupSpec& group) {
  if (group.on_one_host() || args_.local.length != 0) return {};
  return {Code::kUnavailable, "no address to use between hosts is known"};
}

Party TcpBackend::party_for(const GroupSpec& group) const {
  Party party = args_.party;
  party.purpose = Purpose::kData;
  if (group.on_one_host()) party.encryption = Encryption::kOff;
  party.context = fmt::format("{}\ngroup {}", args_.party.context, group.key);
  return party;
}

Result<FileDescriptor> TcpBackend::listen_for(const GroupSpec& group) const {
  if (!group.on_one_host()) return listen_on(args_.local);
  std::string what(as_text(args_.secret.bytes()));
  what += fmt::format("\n{}\n{}\n{}", args_.party.context, group.key, group.rank);
  return listen_on(abstract_endpoint("ronde-" + hex(digest(as_bytes(what))).substr(0, 40)));
}

Result<std::unique_ptr<Communicator>> TcpBackend::open(const GroupSpec& group, Exchange& exchange) {
  Result<FileDescriptor> listener = listen_for(group);
  if (!group.on_one_host()) {
    log(LogLevel::kInfo, "rank {}: data between hosts goes from {}", group.rank,
        args_.local.text());
  }
  RONDE_ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                         agree(group, exchange, listener));
  RONDE_ASSIGN_OR_RETURN(AbortWaker waker, AbortWaker::create());
  const Party party = party_for(group);
  const CancelSource abort{waker.fd(), [&] { return group.abort->status(); }};
  MeshArgs mesh{
      .party = &party, .peers = {}, .addresses = {}, .limit = {now() + args_.timeout, &abort}};
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (static_cast<int>(i) == group.rank) continue;
    mesh.peers.push_back(group.ranks[i]);
    mesh.addresses.push_back(addresses[i]);
  }
  RONDE_ASSIGN_OR_RETURN(const auto manager,
                         ConnectionManager::create(std::move(*listener), group.size()));
  Result<std::vector<Link>> links = [&] {
    const AbortWaker::Listening listening(waker, *group.abort);
    return make_mesh(mesh, *manager);
  }();
  if (group.abort->aborted()) return group.abort->status();
  if (!links.ok()) return links.status();
  return std::unique_ptr<Communicator>(std::make_unique<TcpGroup>(TcpTransport(
      group.rank, by_position(group, std::move(*links)), names_of(group), std::move(waker))));
}

}  // namespace ronde::net
