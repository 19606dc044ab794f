// Makes the messages that tell a job's agents which ranks to start.
#pragma once

#include <vector>

#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/messages.h"

namespace ronde {

/// One message a host, in the order of `options.hosts`: the command and each rank's variables. All
/// carry the job's secret, a new one at each call. `places` says where ranks meet on each host.
/// With rank 0's alone, or where the user sets RONDE_RENDEZVOUS for the ranks, all meet there.
std::vector<StartMessage> start_messages(const LaunchOptions& options,
                                         const std::vector<Rendezvous>& places);

/// The message for a job that mpirun starts. It makes ranks of its processes by itself; they lack
/// only the rendezvous.
StartMessage mpirun_start_message(const LaunchOptions& options, const Rendezvous& rendezvous);

}  // namespace ronde
