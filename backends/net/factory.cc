#include "backends/net/factory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <span>
#include <utility>

#include "backends/net/connection/socket.h"
#include "backends/net/control/job_channel.h"
#include "backends/net/data/tcp_backend.h"
#include "backends/net/meet/tcp_rendezvous.h"
#include "backends/net/meet/unix_rendezvous.h"
#include "backends/net/mesh/connection_budget.h"
#include "backends/net/mesh/connection_manager.h"
#include "core/base/log.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace net {
namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

std::string name_space(const char* kind) {
  struct stat info {};
  const std::string path = fmt::format("/proc/self/ns/{}", kind);
  return ::stat(path.c_str(), &info) == 0 ? fmt::format("{}:{}", kind, info.st_ino) : kind;
}

Status check(const Config& config) {
  if (config.size < 1 || config.rank < 0 || config.rank >= config.size) {
    return {Code::kInvalidArgument,
            fmt::format("RONDE_RANK={} is not within RONDE_SIZE={}", config.rank, config.size)};
  }
  if (config.size > 1 && config.job_id.empty()) {
    return {Code::kInvalidArgument, "RONDE_JOB_ID must be set, alike on all ranks"};
  }
  return {};
}

/// `one_host`: ranks that have met by a Unix socket share a host, also in containers of their own.
Topology topology_of(int rank, const Roster& roster, bool one_host) {
  Topology topology{rank, {}};
  std::map<std::string, int> hosts;
  for (const auto& [r, who] : roster) {
    const auto [host, fresh] =
        hosts.try_emplace(one_host ? std::string() : who.host_identity, hosts.size());
    topology.peers.push_back({host->second, who.host_name, who.pid});
  }
  return topology;
}

Identity identity_of(const Config& config, const ConnectOptions& options, Purpose purpose) {
  return {.purpose = purpose,
          .rank = config.rank,
          .size = config.size,
          .context = config.job_id,
          .keys = {},
          .self = {options.version, options.host_name, options.host_identity, {}, ::getpid()},
          .checksums = config.checksums};
}

/// A host that does not answer a new connection for so long cannot be reached.
Duration reach_limit(const Config& config) {
  const bool limited = config.link_timeout > Duration::zero();
  return limited ? Duration(config.link_timeout) : Duration(config.start_timeout);
}

/// The number of interfaces that all hosts have: each is used with the one at its place in their
/// lists.
std::size_t interfaces_in_use(const Roster& roster) {
  std::size_t further = kMostInterfaces;
  for (const auto& [rank, who] : roster) further = std::min(further, who.further_addresses.size());
  return 1 + further;
}

/// Over each of them.
Result<Routes> routes_of(const RemoteJob& job) {
  Routes routes{.interfaces = job.local, .addresses = {}};
  routes.interfaces.resize(interfaces_in_use(job.roster));
  for (const auto& [rank, who] : job.roster) {
    auto& addresses = routes.addresses.emplace_back();
    RONDE_ASSIGN_OR_RETURN(addresses.emplace_back(), parse_endpoint(who.address));
    for (const std::string& each : who.further_addresses) {
      RONDE_ASSIGN_OR_RETURN(addresses.emplace_back(), parse_endpoint(each));
    }
  }
  return routes;
}

/// Each has a connection with a peer.
int interfaces_listed(const Config& config) {
  return static_cast<int>(listed_interfaces(config.network_interface).size());
}

/// One rank tells it for all.
void warn_of_unused_interfaces(const Config& config, const Roster& roster) {
  if (config.rank != 0) return;
  const auto interfaces = [](const auto& entry) {
    return 1 + entry.second.further_addresses.size();
  };
  const auto [fewest, most] = std::ranges::minmax_element(roster, {}, interfaces);
  if (interfaces(*fewest) == interfaces(*most)) return;
  log(LogLevel::kWarning,
      "{} lists {} network interface{} in RONDE_NETWORK_INTERFACE and {} lists {}: data uses the "
      "first {} of each",
      fewest->second.host_name, interfaces(*fewest), interfaces(*fewest) == 1 ? "" : "s",
      most->second.host_name, interfaces(*most), interfaces(*fewest));
}

LossLimits limits_of(const Config& config) {
  return {.link = config.link_timeout,
          .freeze = config.freeze_timeout,
          .reconnect = std::chrono::duration_cast<Duration>(config.reconnect_limit)};
}

/// All together.
NetworkInterfaces interfaces_of(std::span<const Endpoint> local) {
  NetworkInterfaces interfaces;
  bool known = true;
  for (const Endpoint& address : local) {
    const auto found = interface_with(address);
    const int megabits = found ? interface_megabits(found->name) : 0;
    known = known && megabits > 0;
    interfaces.megabits += megabits;
    interfaces.names +=
        (interfaces.names.empty() ? "" : ",") + (found ? found->name : address.host());
  }
  if (!known) interfaces.megabits = 0;
  return interfaces;
}

Result<JobLink> connect_alone(const Config& config, const ConnectOptions& options) {
  JobLink link;
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<HostChannel> local, channel_for_one(0, 1));
  const Identity identity = identity_of(config, options, Purpose::kData);
  link.channel = std::make_unique<JobChannel>(
      JobChannelArgs{.topology = topology_of(0, {{0, identity.self}}, /*one_host=*/true),
                     .local = std::move(local),
                     .abort = options.abort});
  link.tcp = std::make_unique<TcpBackend>(
      TcpBackendArgs{.identity = identity, .timeout = config.start_timeout});
  return link;
}

/// Adds what hides rank 0's Unix socket.
Status advised_of_host(const Status& status, const Config& config) {
  if (status.code() != Code::kTimeout || config.rank == 0) return status;
  return Status(status.code(),
                fmt::format("{}; without RONDE_RENDEZVOUS ranks meet as one user in one network "
                            "namespace",
                            status.message()))
      .about({0, {}, 0});
}

Result<JobLink> connect_on_one_host(const Config& config, const ConnectOptions& options) {
  UnixRendezvousArgs args;
  args.identity = identity_of(config, options, Purpose::kHost);
  args.ranks.resize(static_cast<std::size_t>(config.size));
  std::iota(args.ranks.begin(), args.ranks.end(), 0);
  args.timeout = config.start_timeout;
  args.cancel = &options.cancel;
  RONDE_ASSIGN_OR_RETURN(args.secret, read_secret(config));
  auto met = rendezvous_on_host(std::move(args));
  if (!met.ok()) return advised_of_host(met.status(), config);
  LocalJob& job = *met;
  Identity identity = identity_of(config, options, Purpose::kData);
  RONDE_ASSIGN_OR_RETURN(identity.keys, Keys::derive(job.secret));
  JobLink link;
  link.channel = std::make_unique<JobChannel>(
      JobChannelArgs{.topology = topology_of(config.rank, job.roster, /*one_host=*/true),
                     .local = std::move(job.channel),
                     .limits = limits_of(config),
                     .abort = options.abort});
  link.tcp = std::make_unique<TcpBackend>(
      TcpBackendArgs{.identity = identity, .secret = job.secret, .timeout = config.start_timeout});
  return link;
}

/// The rest of the time to start, but always enough for a healthy step.
Duration time_left(TimePoint deadline) {
  return std::max<Duration>(deadline - now(), std::chrono::seconds(2));
}

Result<std::unique_ptr<HostChannel>> connect_local_ranks(const Config& config,
                                                         const ConnectOptions& options,
                                                         const Topology& topology,
                                                         const Secret& secret, TimePoint deadline) {
  UnixRendezvousArgs args;
  args.ranks = topology.host_ranks(config.rank);
  if (args.ranks.size() == 1) return channel_for_one(config.rank, config.size);
  args.identity = identity_of(config, options, Purpose::kHost);
  args.secret = secret;
  args.timeout = time_left(deadline);
  args.cancel = &options.cancel;
  RONDE_ASSIGN_OR_RETURN(LocalJob job, rendezvous_on_host(std::move(args)));
  return std::move(job.channel);
}

Result<JobLink> connect_across_hosts(const Config& config, const ConnectOptions& options) {
  const TimePoint deadline = now() + config.start_timeout;
  const auto secret = read_secret(config);
  if (!secret.ok()) return secret.status().with_context("on " + options.host_name);
  if (!*secret && !config.hands_out_secret) {
    return Status(Code::kInvalidArgument,
                  "a job with RONDE_RENDEZVOUS needs a secret: put 64 hexadecimal digits into a "
                  "0600 file, alike on all hosts, and set RONDE_SECRET_FILE to its path");
  }
  Identity identity = identity_of(config, options, Purpose::kRendezvous);
  identity.encryption = parse_encryption(config.encryption);
  // Rank 0 may meet all ranks at once. Then the limit counts.
  const int peers = (config.size - 1) * interfaces_listed(config);
  (void)provide_descriptors(descriptors_needed(peers, 0)).ok();
  RONDE_RETURN_IF_ERROR(provide_descriptors(descriptors_needed(peers, config.max_connections)));
  RONDE_ASSIGN_OR_RETURN(RemoteJob job,
                         rendezvous_across_hosts(config, identity, *secret, &options.cancel));
  RONDE_ASSIGN_OR_RETURN(const Routes routes, routes_of(job));
  JobChannelArgs args{.topology = topology_of(config.rank, job.roster, /*one_host=*/false),
                      .local = nullptr,
                      .limits = limits_of(config),
                      .abort = options.abort,
                      .observers = options.observers};
  RONDE_ASSIGN_OR_RETURN(args.local,
                         connect_local_ranks(config, options, args.topology, job.secret, deadline));
  auto counts = options.observers.counts;
  if (!counts) counts = std::make_shared<ConnectionCounts>();
  auto budget = std::make_shared<ConnectionBudget>(config.max_connections, std::move(counts));
  RONDE_ASSIGN_OR_RETURN(
      const auto manager,
      ConnectionManager::create(config.size, std::move(budget), options.observers.on_connected));
  for (FileDescriptor& each : job.listeners) manager->listen(std::move(each));
  JobLink link;
  if (args.topology.host_count() > 1) {
    warn_of_unused_interfaces(config, job.roster);
    link.interfaces = interfaces_of(std::span(job.local).first(interfaces_in_use(job.roster)));
    identity.purpose = Purpose::kLink;
    args.remote = LinkArgs{
        .manager = manager, .identity = identity, .routes = routes, .timeout = reach_limit(config)};
  }
  auto channel = std::make_unique<JobChannel>(std::move(args));
  RONDE_RETURN_IF_ERROR(channel->connect({now() + time_left(deadline), &options.cancel}));
  link.channel = std::move(channel);
  link.tcp =
      std::make_unique<TcpBackend>(TcpBackendArgs{.identity = identity,
                                                  .secret = job.secret,
                                                  .manager = manager,
                                                  .routes = routes,
                                                  .timeout = reach_limit(config),
                                                  .reconnect_limit = limits_of(config).reconnect,
                                                  .link_timeout = config.link_timeout,
                                                  .observers = options.observers});
  return link;
}

}  // namespace

std::string host_identity() {
  return fmt::format("{} {} {} {} {}", boot_id(), name_space("net"), name_space("ipc"),
                     name_space("pid"), ::geteuid());
}

}  // namespace net

/// A cancelled wait ends with an error of its own, such as a timeout: the cause counts.
Result<JobLink> connect_job(const Config& config, const ConnectOptions& options) {
  RONDE_RETURN_IF_ERROR(net::check(config));
  RONDE_RETURN_IF_ERROR(options.cancel.status());
  if (config.size == 1) return net::connect_alone(config, options);
  auto link = config.rendezvous.empty() ? net::connect_on_one_host(config, options)
                                        : net::connect_across_hosts(config, options);
  if (!link.ok()) RONDE_RETURN_IF_ERROR(options.cancel.status());
  return link;
}

std::string describe_encryption(const Config& config) {
  const net::Encryption mode = net::parse_encryption(config.encryption);
  if (mode == net::Encryption::kOff) {
    return "not encrypted (RONDE_ENCRYPTION=on encrypts it; required also refuses other backends)";
  }
  const bool has_aes = net::cpu_has_aes();
  return fmt::format("encrypted by {} over tcp (RONDE_ENCRYPTION={})",
                     net::to_string(net::choose_cipher(has_aes, has_aes)), net::to_string(mode));
}

}  // namespace ronde
