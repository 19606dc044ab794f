#include "backends/net/rendezvous/tcp_rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "backends/net/rendezvous/connector.h"
#include "core/base/os/interfaces.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kGrace{5};  // rank 0's timeout may start later
constexpr int kAbortWatch = -1;

/// The addresses of config.rendezvous. The host of rank 0 may resolve its own name, which a
/// launcher has chosen, to a loopback address (Debian's 127.0.1.1); the other hosts do not. It then
/// uses the address by which it reaches one of them.
Result<std::vector<Endpoint>> resolve_rendezvous(const Config& config) {
  auto resolved = resolve(config.rendezvous);
  if (!resolved.ok()) return resolved.status();
  if (config.rendezvous_neighbour.empty() || !resolved->front().is_loopback()) return resolved;
  const auto neighbours = resolve_host(config.rendezvous_neighbour);
  if (!neighbours.ok() || neighbours->front().is_loopback()) return resolved;
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, source_towards(neighbours->front()));
  for (Endpoint& endpoint : *resolved) endpoint = address.with_port(endpoint.port());
  return resolved;
}

/// The address of the chosen interface. A loopback one serves only a rendezvous that is on one.
Result<Endpoint> chosen_interface(const Config& config, const std::vector<Endpoint>& resolved) {
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, interface_endpoint(config.network_interface));
  if (!address.is_loopback() || resolved.front().is_loopback()) return address;
  return Status(Code::kInvalidArgument,
                fmt::format("RONDE_NETWORK_INTERFACE=\"{}\" is {}, which other hosts cannot reach; "
                            "name the interface that leads to them",
                            config.network_interface, address.host()));
}

/// The address on which rank 0 listens: the rendezvous, on the chosen interface if the user has set
/// both.
Result<Endpoint> rendezvous_address(const Config& config, const std::vector<Endpoint>& resolved) {
  const bool chosen_by_user = config.rendezvous_neighbour.empty();
  if (config.network_interface.empty() || !chosen_by_user) return resolved.front();
  return chosen_interface(config, resolved);
}

/// The address that this host uses towards the rendezvous, or the chosen interface's.
Result<Endpoint> own_address(const Config& config, const std::vector<Endpoint>& resolved) {
  if (!config.network_interface.empty()) return chosen_interface(config, resolved);
  if (config.rank == 0) return rendezvous_address(config, resolved);
  Status last(Code::kUnavailable, "no address");
  for (const Endpoint& endpoint : resolved) {
    auto source = source_towards(endpoint);
    if (source.ok()) return source;
    last = source.status();
  }
  return last;
}

/// Listens at the first free port of the rendezvous.
Result<FileDescriptor> listen_at_rendezvous(const Config& config,
                                            const std::vector<Endpoint>& resolved) {
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, rendezvous_address(config, resolved));
  Status last;
  for (const Endpoint& endpoint : resolved) {
    if (!endpoint.same_host(resolved.front())) continue;
    auto listener = listen_on(address.with_port(endpoint.port()));
    if (listener.ok()) return listener;
    last = listener.status();
  }
  return last;
}

std::string remedy(const Config& config) {
  return config.rendezvous_neighbour.empty()
             ? "it must be an address of rank 0's host; all hosts must reach it, and one another "
               "on all ports; RONDE_NETWORK_INTERFACE chooses another network"
             : "all hosts must resolve this name and reach one of these ports; else set "
               "RONDE_RENDEZVOUS=ADDRESS:PORT of rank 0's host";
}

/// Adds this host to an error that arose here; the rendezvous and a remedy where they explain it.
Status advised(const Status& status, const Config& config) {
  const bool unreachable = status.code() == Code::kUnavailable || status.code() == Code::kTimeout;
  if (status.code() == Code::kInvalidArgument) return status.with_context("on " + host_name());
  if (!unreachable) return status;
  Status more(status.code(), fmt::format("{}; on {} the rendezvous is {}: {}", status.message(),
                                         host_name(), config.rendezvous, remedy(config)));
  return status.failed_rank() ? more.about(*status.failed_rank()) : more;
}

/// The arguments of both sides of the rendezvous.
struct Meeting {
  const Config& config;
  Party& party;
  const HandoverArgs& handover;
  const CancelSource* cancel;
};

Result<Roster> host(const Meeting& meeting, const std::vector<Endpoint>& resolved,
                    std::optional<Secret>& secret) {
  const Config& config = meeting.config;
  auto listener = listen_at_rendezvous(config, resolved);
  if (!listener.ok()) return advised(listener.status(), config);
  std::optional<SecretOffer> offer;
  if (!secret) {
    RONDE_ASSIGN_OR_RETURN(secret, Secret::random());
    auto made = SecretOffer::make(meeting.handover, *secret);
    if (!made.ok()) return made.status();
    offer.emplace(std::move(*made));
  }
  RONDE_ASSIGN_OR_RETURN(meeting.party.keys, Keys::derive(*secret));
  Connector connector(meeting.party, offer ? offer->greeting() : std::string());
  connector.listen(std::move(*listener));
  HostArgs args{.party = &meeting.party,
                .connector = &connector,
                .guests = {},
                .limit = {now() + config.start_timeout, meeting.cancel}};
  for (int rank = 1; rank < config.size; ++rank) args.guests.push_back(rank);
  auto roster = host_rendezvous(args);
  const bool missing = roster.status().code() == Code::kTimeout;
  return missing ? advised(roster.status(), config) : std::move(roster);
}

Result<Roster> visit(const Meeting& meeting, std::vector<Endpoint> resolved,
                     std::optional<Secret>& secret) {
  const std::chrono::milliseconds timeout = meeting.config.start_timeout;
  const GuestArgs args{.party = &meeting.party,
                       .host_rank = 0,
                       .endpoints = std::move(resolved),
                       .greeted = false,
                       .secret = secret,
                       .handover = &meeting.handover,
                       .limit = {now() + timeout, meeting.cancel}};
  auto connection = reach_host(args);
  if (!connection.ok()) return advised(connection.status(), meeting.config);
  secret = connection->secret;
  return await_verdict(*connection, args, {now() + timeout + kGrace, meeting.cancel});
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

/// Makes the socket at which this rank accepts links. Fills in its address in `party`.
Status listen_for_links(const Config& config, const std::vector<Endpoint>& resolved, Party& party,
                        RemoteJob& job) {
  RONDE_ASSIGN_OR_RETURN(job.local, own_address(config, resolved));
  job.local = job.local.with_port(0);
  RONDE_ASSIGN_OR_RETURN(job.listener, listen_on(job.local));
  RONDE_ASSIGN_OR_RETURN(const Endpoint bound, local_endpoint(job.listener.get()));
  party.self.address = bound.text();
  return {};
}

}  // namespace

Result<RemoteJob> rendezvous_across_hosts(const Config& config, Party& party,
                                          const std::optional<Secret>& given,
                                          const CancelSource* cancel) {
  auto found = resolve_rendezvous(config);
  if (!found.ok()) return advised(found.status(), config);
  std::vector<Endpoint> resolved = std::move(*found);
  RemoteJob job;
  const Status listens = listen_for_links(config, resolved, party, job);
  if (!listens.ok()) return advised(listens, config);
  const Munge munge;
  const HandoverArgs handover{config.job_id, config.shared_folders, config.start_timeout, &munge};
  const Meeting meeting{config, party, handover, cancel};
  std::optional<Secret> secret = given;
  auto roster = config.rank == 0 ? host(meeting, resolved, secret)
                                 : visit(meeting, std::move(resolved), secret);
  if (!roster.ok()) return roster.status();
  job.roster = std::move(*roster);
  job.secret = *secret;
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
    links.push_back({event->rank, std::move(event->stream)});
  }
  return links;
}

}  // namespace ronde::net
