// The environment of the ranks of a job, the job's secrets, and the messages that start it.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/messages.h"

namespace ronde {

struct LaunchOptions;

/// `bytes` random bytes from the kernel, in hexadecimal.
std::string random_hex(std::size_t bytes);

/// An address and free ports of a host, as its agent reported them. Those of rank 0's host are the
/// job's rendezvous.
struct Rendezvous {
  std::string address;
  int rendezvous_port = 0;
  int master_port = 0;
};

/// The variables of one rank: RONDE_*, torchrun's and Horovod's names for the same facts.
/// `hosts[host]` holds the rank, as its local rank number `local_rank`.
EnvironmentList rank_environment(const std::vector<HostRanks>& hosts, std::size_t host,
                                 int local_rank);

/// The variables that all ranks share. RONDE_RENDEZVOUS is there for several hosts only.
EnvironmentList job_environment(const std::string& job_id, const Rendezvous& rendezvous,
                                bool several_hosts);

/// RONDE_RENDEZVOUS_TREE of each host: where its ranks meet, and where those of the host above it
/// do. `stretches` holds all ranks in order; a host may have several. `places` has one for each
/// host, in the order in which `stretches` first name them.
std::vector<std::string> rendezvous_trees(const std::vector<HostRanks>& stretches,
                                          const std::vector<Rendezvous>& places);

/// Removes the variables by which a launcher has told this process that it is a rank, so that a job
/// which it starts has none of them. Call from the only thread of the process.
void forget_own_rank();

/// The variables of this process that ranks on other hosts get too: where programs and libraries
/// are found, and settings of Ronde, Horovod, Python, OpenMP, NCCL, CUDA, UCX and frameworks.
EnvironmentList forwarded_environment();

/// Reads "NAME=value", or "NAME" for this process's value.
/// Errors: kInvalidArgument where the name is not valid or not set here.
Result<std::string> environment_entry(const std::string& text);

/// One message a host, in the order of `options.hosts`: the command and each rank's variables. All
/// carry the job's secret, a new one at each call. `places` says where ranks meet on each host.
/// With rank 0's alone, or where the user sets RONDE_RENDEZVOUS for the ranks, all meet there.
std::vector<StartMessage> start_messages(const LaunchOptions& options,
                                         const std::vector<Rendezvous>& places);

/// The message for a job that mpirun starts. It makes ranks of its processes by itself; they lack
/// only the rendezvous.
StartMessage mpirun_start_message(const LaunchOptions& options, const Rendezvous& rendezvous);

}  // namespace ronde
