// The rendezvous of a rank with rank 0 through the leader of its host. The leader is the first rank
// of the host that takes a Unix socket of the job. It alone connects to rank 0, for all that come
// to it. So rank 0 has a connection a host, whatever number of ranks that has.
//
// Nobody needs to know which ranks share a host, or how many they are. A rank that finds no leader
// that answers connects to rank 0 itself.
#pragma once

#include <functional>
#include <string>

#include "backends/net/rendezvous/rendezvous.h"
#include "backends/net/rendezvous/roster.h"
#include "backends/net/rendezvous/secret.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// The arguments of a rank that is not rank 0.
struct LeaderRendezvousArgs {
  GuestArgs guest;         ///< Towards rank 0, with the limit for reaching it.
  std::string place;       ///< The rendezvous, as the job's ranks write it.
  Duration verdict_limit;  ///< After rank 0 has been reached.
  /// Adds a remedy to the error of a leader that cannot reach rank 0.
  std::function<Status(const Status&)> advise;
};

/// The result.
struct LeaderMeeting {
  Roster roster;  ///< Of the job.
  Secret secret;  ///< The given one, or that of rank 0.
};

/// The address of the leader's socket, alike on the ranks that meet through one leader.
Endpoint leader_endpoint(const LeaderRendezvousArgs& args);

/// Blocks until all ranks of the job have met. Fills in the keys of the guest's party. Errors: as
/// reach_host and await_verdict; those of ranks of this host end the rendezvous for all;
/// kRankFailure where the leader goes away.
Result<LeaderMeeting> meet_through_leader(const LeaderRendezvousArgs& args);

}  // namespace ronde::net
