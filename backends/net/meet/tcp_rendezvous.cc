#include "backends/net/meet/tcp_rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/net/connection/socket.h"
#include "backends/net/meet/handover.h"
#include "backends/net/meet/tree_rendezvous.h"
#include "core/base/log.h"
#include "core/base/os/interfaces.h"

namespace ronde::net {

namespace {

Status refuse(const std::string& setting, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("RONDE_NETWORK_INTERFACE=\"{}\": {}", setting, why)};
}

const char* name_of_family(int family) { return family == AF_INET6 ? "IPv6" : "IPv4"; }

/// An address stands for itself.
Result<Endpoint> address_of(const std::string& setting, const std::string& interface, int family) {
  auto chosen = numeric_host(interface);
  if (!chosen.ok()) {
    RONDE_RETURN_IF_ERROR(interface_endpoint(interface).status());
    const auto found = interface_address(interface, family);
    if (found) chosen = *found;
  }
  if (!chosen.ok() || chosen->family() != family) {
    return refuse(setting, fmt::format("{} has no {} address, which the rendezvous has", interface,
                                       name_of_family(family)));
  }
  const auto device = interface_with(*chosen);
  if (device && !device->up) return refuse(setting, fmt::format("{} is down", interface));
  return chosen;
}

}  // namespace

Result<std::vector<Endpoint>> interface_addresses(const std::string& setting, int family) {
  const std::vector<std::string> interfaces = listed_interfaces(setting);
  if (interfaces.size() > kMostInterfaces) {
    return refuse(setting, fmt::format("it lists {} interfaces; allowed: 1 to {}",
                                       interfaces.size(), kMostInterfaces));
  }
  std::vector<Endpoint> addresses;
  if (interfaces.size() == 1) {
    RONDE_ASSIGN_OR_RETURN(const Endpoint only, interface_endpoint(setting));
    return std::vector{only};
  }
  for (const std::string& interface : interfaces) {
    if (interface.empty()) return refuse(setting, "a name is missing; allowed: eth0,eth1");
    RONDE_ASSIGN_OR_RETURN(const Endpoint address, address_of(setting, interface, family));
    const auto same = std::ranges::find_if(
        addresses, [&](const Endpoint& other) { return other.same_host(address); });
    if (same != addresses.end()) {
      return refuse(setting,
                    fmt::format("{} is listed twice, as {}", interface,
                                interfaces[static_cast<std::size_t>(same - addresses.begin())]));
    }
    addresses.push_back(address);
  }
  return addresses;
}

namespace {

constexpr std::chrono::seconds kLaterStart{5};             // rank 0's timeout may start later
constexpr std::chrono::milliseconds kLeaderRefusals{300};  // a leader begins to listen, or ends
constexpr std::chrono::seconds kLeaderLimit{6};            // it may be busy reaching rank 0

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

/// The addresses of the chosen interfaces. Loopback ones serve only a rendezvous that is on one.
Result<std::vector<Endpoint>> chosen_interfaces(const Config& config,
                                                const std::vector<Endpoint>& resolved) {
  RONDE_ASSIGN_OR_RETURN(auto addresses,
                         interface_addresses(config.network_interface, resolved.front().family()));
  const auto loopback = std::ranges::find_if(addresses, &Endpoint::is_loopback);
  if (loopback == addresses.end() || resolved.front().is_loopback()) return addresses;
  return Status(Code::kInvalidArgument,
                fmt::format("RONDE_NETWORK_INTERFACE=\"{}\" is {}, which other hosts cannot reach; "
                            "name the interface that leads to them",
                            config.network_interface, loopback->host()));
}

/// The address on which rank 0 listens: the rendezvous, on the chosen interface if the user has set
/// both.
Result<Endpoint> rendezvous_address(const Config& config, const std::vector<Endpoint>& resolved) {
  const bool chosen_by_user = config.rendezvous_neighbour.empty();
  if (config.network_interface.empty() || !chosen_by_user) return resolved.front();
  RONDE_ASSIGN_OR_RETURN(const auto chosen, chosen_interfaces(config, resolved));
  return chosen.front();
}

/// The address that this host uses towards the rendezvous.
Result<Endpoint> routed_address(const Config& config, const std::vector<Endpoint>& resolved) {
  if (config.rank == 0) return rendezvous_address(config, resolved);
  Status last(Code::kUnavailable, "no address");
  for (const Endpoint& endpoint : resolved) {
    auto source = source_towards(endpoint);
    if (source.ok()) return source;
    last = source.status();
  }
  return last;
}

/// The addresses of the interfaces of this host: the chosen ones, or the one that leads to the
/// rendezvous.
Result<std::vector<Endpoint>> own_addresses(const Config& config,
                                            const std::vector<Endpoint>& resolved) {
  if (!config.network_interface.empty()) return chosen_interfaces(config, resolved);
  RONDE_ASSIGN_OR_RETURN(const Endpoint routed, routed_address(config, resolved));
  return std::vector{routed.with_port(0)};
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

/// The facts that each step of the rendezvous needs.
struct JobFacts {
  const Config& config;
  const Identity& identity;  ///< Without keys.
  const HandoverArgs& handover;
  const CancelSource* cancel;
};

/// The log names the rank: the launcher shows a line once that several ranks write alike.
Result<Roster> meet(const JobFacts& facts, const Identity& identity, TreeRendezvousArgs args) {
  const Config& config = facts.config;
  args.identity = &identity;
  args.timeout = config.start_timeout;
  args.cancel = facts.cancel;
  const TimePoint began = now();
  TreeResult met = meet_by_tree(std::move(args));
  log(LogLevel::kDebug, "control channel: {} ranks met in {} ms; rank {} had {} messages",
      config.size, std::chrono::duration_cast<std::chrono::milliseconds>(now() - began).count(),
      config.rank, met.messages);
  if (config.rank == 0) {
    log(LogLevel::kDebug, "control channel: the other ranks came over {} connections",
        met.connections);
  }
  return std::move(met.roster);
}

/// The part of a rank whose place is known.
Result<Roster> meet_at_place(const JobFacts& facts, const Secret& secret, TreeRendezvousArgs args) {
  RONDE_ASSIGN_OR_RETURN(const auto identity, identity_with(facts.identity, secret));
  auto roster = meet(facts, *identity, std::move(args));
  return roster.ok() ? std::move(roster) : advised(roster.status(), facts.config);
}

Result<Roster> host(const JobFacts& facts, const std::vector<Endpoint>& resolved,
                    std::optional<Secret>& secret) {
  const Config& config = facts.config;
  auto listener = listen_at_rendezvous(config, resolved);
  if (!listener.ok()) return advised(listener.status(), config);
  std::optional<SecretOffer> offer;
  if (!secret) {
    RONDE_ASSIGN_OR_RETURN(secret, Secret::random());
    auto made = SecretOffer::make(facts.handover, *secret);
    if (!made.ok()) return made.status();
    offer.emplace(std::move(*made));
  }
  std::vector<int> others(static_cast<std::size_t>(config.size - 1));
  std::iota(others.begin(), others.end(), 1);
  const RendezvousPlace place = place_of_root(others);
  return meet_at_place(facts, *secret,
                       {.place = &place,
                        .greeting = offer ? offer->greeting() : std::string(),
                        .listener = std::move(*listener)});
}

/// To rank 0. Where `secret` is unknown, its greeting leads to it.
WayUp way_to_rank_0(const JobFacts& facts, std::vector<Endpoint> resolved,
                    std::optional<Secret>& secret) {
  WayUp way{.rank = 0, .endpoints = std::move(resolved)};
  if (secret) return way;
  way.read_greeting = [&](std::string_view greeting) -> Result<std::shared_ptr<const Identity>> {
    RONDE_ASSIGN_OR_RETURN(secret, secret_of_rank_0(greeting, facts.handover));
    return identity_with(facts.identity, *secret);
  };
  return way;
}

/// To the leader of this host, at its socket.
WayUp way_to_leader(const Identity& identity, const Endpoint& socket,
                    const std::optional<Secret>& given) {
  return {
      .rank = -1,
      .endpoints = {socket},
      .read_greeting =
          [&identity, given](std::string_view greeting) -> Result<std::shared_ptr<const Identity>> {
        RONDE_ASSIGN_OR_RETURN(const Secret secret, secret_on_host(greeting, given));
        return identity_with(identity, secret);
      },
      .refusal_limit = kLeaderRefusals,
      .time = kLeaderLimit};
}

/// The part of a rank that has taken the leader's socket. Without a secret it makes one for the
/// connections inside its host; that of the job comes from rank 0.
Result<Roster> lead(const JobFacts& facts, FileDescriptor socket, WayUp to_rank_0,
                    std::optional<Secret>& secret) {
  std::optional<Secret> made;
  if (!secret) {
    RONDE_ASSIGN_OR_RETURN(made, Secret::random());
  }
  RONDE_ASSIGN_OR_RETURN(const auto identity,
                         identity_with(facts.identity, secret ? *secret : *made));
  RendezvousPlace place;
  place.open = true;
  return meet(facts, *identity,
              {.place = &place,
               .greeting = make_greeting(made),
               .listener = std::move(socket),
               .ways = {std::move(to_rank_0)},
               .secret = made ? &secret : nullptr,
               .advise = [&](const Status& status) { return advised(status, facts.config); }});
}

/// The part of a rank that knows no place. It meets rank 0 through the leader of its host: the
/// first rank that takes the leader's socket. Where no leader answers, it connects to rank 0.
Result<Roster> visit(const JobFacts& facts, std::vector<Endpoint> resolved,
                     std::optional<Secret>& secret) {
  const Config& config = facts.config;
  const Endpoint socket = leader_endpoint(config.rendezvous, facts.identity, secret);
  WayUp to_rank_0 = way_to_rank_0(facts, std::move(resolved), secret);
  auto listener = listen_on(socket);
  if (listener.ok()) return lead(facts, std::move(*listener), std::move(to_rank_0), secret);
  const std::optional<Secret> given = secret;
  RONDE_ASSIGN_OR_RETURN(const auto identity,
                         identity_with(facts.identity, given.value_or(Secret())));
  const RendezvousPlace place;
  // The leader may need its time to reach rank 0, and then rank 0 its own.
  return meet(facts, *identity,
              {.place = &place,
               .ways = {way_to_leader(facts.identity, socket, given), std::move(to_rank_0)},
               .verdict_time = 2 * (config.start_timeout + kLaterStart),
               .secret = given ? nullptr : &secret,
               .advise = [&](const Status& status) { return advised(status, config); }});
}

/// Makes the sockets at which this rank accepts links. Fills in their addresses in `identity`.
Status listen_for_links(const Config& config, const std::vector<Endpoint>& resolved,
                        Identity& identity, RemoteJob& job) {
  RONDE_ASSIGN_OR_RETURN(job.local, own_addresses(config, resolved));
  std::vector<std::string> bound;
  for (const Endpoint& local : job.local) {
    RONDE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_on(local));
    RONDE_ASSIGN_OR_RETURN(const Endpoint endpoint, local_endpoint(listener.get()));
    bound.push_back(endpoint.text());
    job.listeners.push_back(std::move(listener));
  }
  identity.self.address = bound.front();
  identity.self.further_addresses.assign(bound.begin() + 1, bound.end());
  return {};
}

}  // namespace

Endpoint leader_endpoint(const std::string& rendezvous, const Identity& identity,
                         const std::optional<Secret>& secret) {
  return private_endpoint(fmt::format("leader\n{}\n{}\n{}\n{}\n", rendezvous, identity.context,
                                      identity.size, identity.self.host_identity),
                          secret);
}

Result<RemoteJob> rendezvous_across_hosts(const Config& config, Identity& identity,
                                          const std::optional<Secret>& given,
                                          const CancelSource* cancel) {
  auto found = resolve_rendezvous(config);
  if (!found.ok()) return advised(found.status(), config);
  std::vector<Endpoint> resolved = std::move(*found);
  RemoteJob job;
  const Status listens = listen_for_links(config, resolved, identity, job);
  if (!listens.ok()) return advised(listens, config);
  const HandoverArgs handover{config.job_id, config.shared_folders, config.start_timeout};
  const JobFacts facts{config, identity, handover, cancel};
  std::optional<Secret> secret = given;
  RONDE_ASSIGN_OR_RETURN(const auto place, place_in_rendezvous(config));
  auto roster = place && secret    ? meet_at_place(facts, *secret, {.place = &*place})
                : config.rank == 0 ? host(facts, resolved, secret)
                                   : visit(facts, std::move(resolved), secret);
  if (!roster.ok()) return roster.status();
  RONDE_ASSIGN_OR_RETURN(identity.keys, Keys::derive(*secret));
  job.roster = std::move(*roster);
  job.secret = *secret;
  return job;
}

}  // namespace ronde::net
