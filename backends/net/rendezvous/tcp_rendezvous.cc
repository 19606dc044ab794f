#include "backends/net/rendezvous/tcp_rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <set>
#include <utility>

#include "backends/net/rendezvous/cards.h"
#include "backends/net/rendezvous/connector.h"
#include "backends/net/rendezvous/leader_rendezvous.h"
#include "backends/net/rendezvous/meeting_tree.h"
#include "backends/net/rendezvous/tree_rendezvous.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/os/interfaces.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kLaterStart{5};  // rank 0's timeout may start later

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
                         card_addresses(config.network_interface, resolved.front().family()));
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

/// The addresses of the cards of this host: the chosen ones, or the one that leads to the
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

/// The arguments of both sides of the rendezvous.
struct Meeting {
  const Config& config;
  Party& party;
  const HandoverArgs& handover;
  const CancelSource* cancel;
};

/// The rank is named: the launcher shows a line once that several ranks write alike.
void log_messages(const Config& config, TimePoint began, int messages) {
  log(LogLevel::kDebug, "control channel: {} ranks met in {} ms; rank {} had {} messages",
      config.size, std::chrono::duration_cast<std::chrono::milliseconds>(now() - began).count(),
      config.rank, messages);
}

Result<Roster> meet_by_tree(const Meeting& meeting, const MeetingPlace& place,
                            const Secret& secret) {
  RONDE_ASSIGN_OR_RETURN(meeting.party.keys, Keys::derive(secret));
  const TimePoint began = now();
  TreeMeeting met = net::meet_by_tree({.party = &meeting.party,
                                       .place = &place,
                                       .timeout = meeting.config.start_timeout,
                                       .cancel = meeting.cancel});
  log_messages(meeting.config, began, met.messages);
  return met.roster.ok() ? std::move(met.roster) : advised(met.roster.status(), meeting.config);
}

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
  const TimePoint began = now();
  HostMeeting met = host_rendezvous(args);
  log_messages(config, began, met.messages);
  log(LogLevel::kDebug, "control channel: the other ranks came over {} connections",
      met.connections);
  const Code code = met.roster.status().code();
  const bool missing = code == Code::kTimeout || code == Code::kInvalidArgument;
  return missing ? advised(met.roster.status(), config) : std::move(met.roster);
}

Result<Roster> visit(const Meeting& meeting, std::vector<Endpoint> resolved,
                     std::optional<Secret>& secret) {
  const Config& config = meeting.config;
  const LeaderRendezvousArgs args{
      .guest = {.party = &meeting.party,
                .host_rank = 0,
                .endpoints = std::move(resolved),
                .greeted = false,
                .secret = secret,
                .handover = &meeting.handover,
                .limit = {now() + config.start_timeout, meeting.cancel}},
      .place = config.rendezvous,
      .verdict_limit = config.start_timeout + kLaterStart,
      .advise = [&config](const Status& status) { return advised(status, config); }};
  RONDE_ASSIGN_OR_RETURN(LeaderMeeting met, meet_through_leader(args));
  secret = met.secret;
  return std::move(met.roster);
}

/// Makes the sockets at which this rank accepts links. Fills in their addresses in `party`.
Status listen_for_links(const Config& config, const std::vector<Endpoint>& resolved, Party& party,
                        RemoteJob& job) {
  RONDE_ASSIGN_OR_RETURN(job.local, own_addresses(config, resolved));
  std::vector<std::string> bound;
  for (const Endpoint& local : job.local) {
    RONDE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_on(local));
    RONDE_ASSIGN_OR_RETURN(const Endpoint endpoint, local_endpoint(listener.get()));
    bound.push_back(endpoint.text());
    job.listeners.push_back(std::move(listener));
  }
  party.self.address = bound.front();
  party.self.further_addresses.assign(bound.begin() + 1, bound.end());
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
  RONDE_ASSIGN_OR_RETURN(const auto place, place_in_meeting(config));
  auto roster = place && secret    ? meet_by_tree(meeting, *place, *secret)
                : config.rank == 0 ? host(meeting, resolved, secret)
                                   : visit(meeting, std::move(resolved), secret);
  if (!roster.ok()) return roster.status();
  job.roster = std::move(*roster);
  job.secret = *secret;
  return job;
}

}  // namespace ronde::net
