#include "backends/net/meet/unix_rendezvous.h"

#include <fmt/format.h>

#include <span>

#include "backends/net/meet/handover.h"
#include "backends/net/meet/tree_rendezvous.h"

namespace ronde::net {
namespace {

/// The job's last rendezvous may still hold the name: tries until the limit has passed.
Result<FileDescriptor> listen_until(const Endpoint& endpoint, const WaitLimit& limit) {
  while (true) {
    auto listener = listen_on(endpoint);
    if (listener.ok() || limit.passed()) return listener;
    limit.sleep(std::chrono::milliseconds(1));
  }
}

Result<LocalJob> host(UnixRendezvousArgs& args) {
  const WaitLimit limit(now() + args.timeout, args.cancel);
  RONDE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_until(rendezvous_endpoint(args), limit));
  const std::optional<Secret> known = args.secret;
  LocalJob job;
  if (known) {
    job.secret = *known;
  } else {
    RONDE_ASSIGN_OR_RETURN(job.secret, Secret::random());
  }
  RONDE_ASSIGN_OR_RETURN(args.identity.keys, Keys::derive(job.secret));
  RONDE_ASSIGN_OR_RETURN(const FileDescriptor memory,
                         HostSegment::make_memory(args.ranks.size(), args.identity.size));
  RONDE_ASSIGN_OR_RETURN(auto segment, HostSegment::map(memory, args.ranks, args.identity.size));
  job.channel = std::make_unique<HostChannel>(std::move(segment), args.identity.rank,
                                              args.identity.checksums);
  RONDE_RETURN_IF_ERROR(job.channel->watch().start());
  const RendezvousPlace place = place_of_root(std::span(args.ranks).subspan(1));
  TreeResult met =
      meet_by_tree({.identity = &args.identity,
                    .place = &place,
                    .timeout = limit.deadline() - now(),
                    .cancel = args.cancel,
                    .greeting = make_greeting(known ? std::nullopt : std::optional(job.secret)),
                    .listener = std::move(listener),
                    .passed_fd = memory.get()});
  RONDE_ASSIGN_OR_RETURN(job.roster, std::move(met.roster));
  return job;
}

Result<LocalJob> visit(UnixRendezvousArgs& args) {
  LocalJob job;
  const auto read_greeting =
      [&](std::string_view greeting) -> Result<std::shared_ptr<const Identity>> {
    RONDE_ASSIGN_OR_RETURN(job.secret, secret_on_host(greeting, args.secret));
    return identity_with(args.identity, job.secret);
  };
  const auto take_segment = [&](Stream& host) -> Status {
    const WaitLimit limit(now() + args.timeout, args.cancel);
    RONDE_ASSIGN_OR_RETURN(const FileDescriptor memory, recv_descriptor(host.fd(), limit));
    RONDE_ASSIGN_OR_RETURN(auto segment, HostSegment::map(memory, args.ranks, args.identity.size));
    job.channel = std::make_unique<HostChannel>(std::move(segment), args.identity.rank,
                                                args.identity.checksums);
    return job.channel->watch().start();
  };
  const RendezvousPlace place;
  TreeResult met = meet_by_tree({.identity = &args.identity,
                                 .place = &place,
                                 .timeout = args.timeout,
                                 .cancel = args.cancel,
                                 .ways = {{.rank = args.ranks.front(),
                                           .endpoints = {rendezvous_endpoint(args)},
                                           .read_greeting = read_greeting}},
                                 .on_reached = take_segment});
  RONDE_ASSIGN_OR_RETURN(job.roster, std::move(met.roster));
  return job;
}

}  // namespace

Endpoint rendezvous_endpoint(const UnixRendezvousArgs& args) {
  return private_endpoint(fmt::format("{}\n{}\n", args.ranks.front(), args.identity.context),
                          args.secret);
}

Result<LocalJob> rendezvous_on_host(UnixRendezvousArgs args) {
  return args.identity.rank == args.ranks.front() ? host(args) : visit(args);
}

Result<std::unique_ptr<HostChannel>> channel_for_one(int rank, int job_ranks) {
  RONDE_ASSIGN_OR_RETURN(const FileDescriptor memory, HostSegment::make_memory(1, job_ranks));
  RONDE_ASSIGN_OR_RETURN(auto segment, HostSegment::map(memory, {rank}, job_ranks));
  return std::make_unique<HostChannel>(std::move(segment), rank);
}

}  // namespace ronde::net
