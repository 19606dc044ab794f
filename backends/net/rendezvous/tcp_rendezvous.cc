#include "backends/net/rendezvous/tcp_rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "backends/net/rendezvous/connector.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kGrace{5};  // rank 0's timeout may start later
constexpr int kAbortWatch = -1;

/// The address on which rank 0 listens: the rendezvous, on the chosen interface if one is set.
Result<Endpoint> rendezvous_point(const Config& config, const std::vector<Endpoint>& resolved) {
  if (config.network_interface.empty()) return resolved.front();
  RONDE_ASSIGN_OR_RETURN(const Endpoint chosen, interface_endpoint(config.network_interface));
  return chosen.with_port(resolved.front().port());
}

/// The address that this host uses towards the rendezvous, or the chosen interface's.
Result<Endpoint> own_address(const Config& config, const std::vector<Endpoint>& resolved) {
  if (!config.network_interface.empty()) return interface_endpoint(config.network_interface);
  Status last(Code::kUnavailable, "no address");
  for (const Endpoint& endpoint : resolved) {
    auto source = source_towards(endpoint);
    if (source.ok()) return source;
    last = source.status();
  }
  return last.with_context(fmt::format("RONDE_RENDEZVOUS={}", config.rendezvous));
}

Result<Roster> host(const Config& config, const Party& party, const std::vector<Endpoint>& resolved,
                    const CancelSource* cancel) {
  RONDE_ASSIGN_OR_RETURN(const Endpoint point, rendezvous_point(config, resolved));
  auto listener = listen_on(point);
  if (!listener.ok()) {
    return listener.status().with_context(fmt::format("RONDE_RENDEZVOUS={}", config.rendezvous));
  }
  Connector connector(party);
  connector.listen(std::move(*listener));
  HostArgs args{.party = &party,
                .connector = &connector,
                .guests = {},
                .limit = {now() + config.start_timeout, cancel}};
  for (int rank = 1; rank < config.size; ++rank) args.guests.push_back(rank);
  return host_rendezvous(args);
}

Result<Roster> visit(const Config& config, Party& party, const Secret& secret,
                     std::vector<Endpoint> resolved, const CancelSource* cancel) {
  const GuestArgs args{.party = &party,
                       .host_rank = 0,
                       .endpoints = std::move(resolved),
                       .greeted = false,
                       .secret = secret,
                       .limit = {now() + config.start_timeout, cancel}};
  RONDE_ASSIGN_OR_RETURN(const HostConnection connection, reach_host(args));
  return await_verdict(connection, args, {now() + config.start_timeout + kGrace, cancel});
}

/// The ranks that this one waits for, with the last failure of those that it dials.
std::string describe_missing(const Connector& connector, const std::set<int>& missing) {
  std::vector<std::string> parts;
  for (const int rank : missing) {
    const std::string failure = connector.last_failure(rank);
    parts.push_back(failure.empty() ? fmt::format("rank {}", rank)
                                    : fmt::format("rank {} ({})", rank, failure));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Status dial_lower(Connector& connector, const MeshArgs& args) {
  for (std::size_t i = 0; i < args.peers.size(); ++i) {
    if (args.peers[i] > args.party->rank) continue;
    RONDE_ASSIGN_OR_RETURN(const Endpoint endpoint, parse_endpoint(args.addresses[i]));
    connector.dial(args.peers[i], endpoint);
  }
  return {};
}

}  // namespace

Result<RemoteJob> rendezvous_across_hosts(const Config& config, Party& party, const Secret& secret,
                                          const CancelSource* cancel) {
  RONDE_ASSIGN_OR_RETURN(std::vector<Endpoint> resolved, resolve(config.rendezvous));
  RemoteJob job;
  if (config.rank == 0) {
    RONDE_ASSIGN_OR_RETURN(job.local, rendezvous_point(config, resolved));
  } else {
    RONDE_ASSIGN_OR_RETURN(job.local, own_address(config, resolved));
  }
  job.local = job.local.with_port(0);
  RONDE_ASSIGN_OR_RETURN(job.listener, listen_on(job.local));
  RONDE_ASSIGN_OR_RETURN(const Endpoint bound, local_endpoint(job.listener.get()));
  party.self.address = bound.text();
  auto roster = config.rank == 0 ? host(config, party, resolved, cancel)
                                 : visit(config, party, secret, std::move(resolved), cancel);
  if (!roster.ok()) return roster.status();
  job.roster = std::move(*roster);
  return job;
}

Result<std::vector<Link>> make_mesh(const MeshArgs& args, FileDescriptor listener) {
  Connector connector(*args.party);
  connector.listen(std::move(listener));
  if (args.abort_fd >= 0) connector.watch(kAbortWatch, args.abort_fd);
  RONDE_RETURN_IF_ERROR(dial_lower(connector, args));
  std::set<int> missing(args.peers.begin(), args.peers.end());
  std::vector<Link> links;
  while (!missing.empty()) {
    auto event = connector.next(args.limit);
    if (!event.ok()) return event.status();
    if (event->kind == ConnectorEvent::Kind::kTimeout) {
      return Status(Code::kTimeout,
                    fmt::format("rank {} could not connect with {} in time", args.party->rank,
                                describe_missing(connector, missing)))
          .about({*missing.begin(), {}, 0});
    }
    if (event->kind == ConnectorEvent::Kind::kReadable) return Status(Code::kAborted, "aborted");
    // A peer that gave up its first connection connects again: the last one counts.
    std::erase_if(links, [&](const Link& link) { return link.rank == event->rank; });
    missing.erase(event->rank);
    links.push_back({event->rank, std::move(event->socket)});
  }
  return links;
}

}  // namespace ronde::net
