#include "backends/net/rendezvous/unix_rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/bytes.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kHostGrace{5};  // the host's timeout may start later

/// The job's last rendezvous may still hold the name: tries until the limit has passed.
Result<FileDescriptor> listen_until(const Endpoint& endpoint, const WaitLimit& limit) {
  while (true) {
    auto listener = listen_on(endpoint);
    if (listener.ok() || limit.passed()) return listener;
    limit.sleep(std::chrono::milliseconds(1));
  }
}

std::size_t position(const std::vector<int>& ranks, int rank) {
  return static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
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
  RONDE_ASSIGN_OR_RETURN(args.party.keys, Keys::derive(job.secret));
  Connector connector(args.party, make_greeting(known ? std::nullopt : std::optional(job.secret)));
  connector.listen(std::move(listener));
  const int count = static_cast<int>(args.ranks.size());
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<HostSegment> segment,
                         HostSegment::create(count, args.party.size));
  HostSegment* const shared = segment.get();
  job.channel = std::make_unique<HostChannel>(std::move(segment), 0);
  RONDE_RETURN_IF_ERROR(job.channel->hold());
  HostMeeting met = host_rendezvous({.party = &args.party,
                                     .connector = &connector,
                                     .guests = {args.ranks.begin() + 1, args.ranks.end()},
                                     .passed_fd = shared->fd(),
                                     .limit = limit});
  RONDE_ASSIGN_OR_RETURN(job.roster, std::move(met.roster));
  shared->release_fd();
  return job;
}

Result<LocalJob> visit(UnixRendezvousArgs& args) {
  GuestArgs guest{.party = &args.party,
                  .host_rank = args.ranks.front(),
                  .endpoints = {rendezvous_endpoint(args)},
                  .greeted = true,
                  .secret = args.secret,
                  .limit = {now() + args.timeout, args.cancel}};
  RONDE_ASSIGN_OR_RETURN(HostConnection connection, reach_host(guest));
  const WaitLimit limit(now() + args.timeout + kHostGrace, args.cancel);
  auto memory = recv_descriptor(connection.stream.fd(), limit);
  if (!memory.ok()) return host_is_gone(connection, memory.status().message());
  const int count = static_cast<int>(args.ranks.size());
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<HostSegment> segment,
                         HostSegment::attach(std::move(*memory), count, args.party.size));
  segment->release_fd();
  LocalJob job;
  job.secret = connection.secret;
  job.channel = std::make_unique<HostChannel>(
      std::move(segment), static_cast<int>(position(args.ranks, args.party.rank)));
  RONDE_RETURN_IF_ERROR(job.channel->hold());
  acknowledge(connection.stream);
  RONDE_ASSIGN_OR_RETURN(job.roster, await_verdict(connection, args.party.size, limit));
  return job;
}

}  // namespace

Endpoint rendezvous_endpoint(const UnixRendezvousArgs& args) {
  return private_endpoint(fmt::format("{}\n{}\n", args.ranks.front(), args.party.context),
                          args.secret);
}

Endpoint private_endpoint(std::string_view purpose, const std::optional<Secret>& secret) {
  std::string what = fmt::format("{}\n{}", ::geteuid(), purpose);
  if (secret) what += as_text(secret->bytes());
  return abstract_endpoint("ronde-" + hex(digest(as_bytes(what))).substr(0, 40));
}

Result<LocalJob> rendezvous_on_host(UnixRendezvousArgs args) {
  return args.party.rank == args.ranks.front() ? host(args) : visit(args);
}

Result<std::unique_ptr<HostChannel>> channel_for_one(int job_ranks) {
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<HostSegment> segment, HostSegment::create(1, job_ranks));
  segment->release_fd();
  return std::make_unique<HostChannel>(std::move(segment), 0);
}

}  // namespace ronde::net
