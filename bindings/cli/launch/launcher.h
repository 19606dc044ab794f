// Runs one job: a launcher on this host, an agent on each host.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bindings/cli/launch/carried_call.h"
#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/mpirun.h"
#include "bindings/cli/launch/ssh.h"

namespace ronde {

class Console;

/// One job. Hosts with an empty name are this one.
struct LaunchOptions {
  std::vector<HostRanks> hosts;
  int size = 0;  ///< Ranks of the job.
  std::vector<std::string> command;
  std::string directory;          ///< In which the ranks start, on all hosts.
  EnvironmentList environment;    ///< For all ranks; wins over what the launcher sets.
  std::string network_interface;  ///< Name or address on the host of rank 0; empty: as routed.
  SshOptions ssh;
  int agent_fan_out = 32;  ///< Agents that one process starts at most.
  std::string program;     ///< Path of this program, to start the agent of this host.
  std::string output_dir;  ///< Empty: none.
  CallFolder call_folder;
  std::vector<std::string> call_frames;             ///< CallFolder::frames().
  std::chrono::milliseconds start_timeout{60'000};  ///< For all hosts to answer.
  std::chrono::milliseconds failure_delay{500};     ///< From a failure to SIGTERM for the others.
  std::chrono::milliseconds grace{5'000};           ///< From SIGTERM or Ctrl-C to SIGKILL.
  bool verbose = false;
  bool times = false;  ///< Each line of output begins with the time.
  AgentOptions agents;
  int attempt = 1;              ///< From the second on, files of output are appended to.
  bool through_mpirun = false;  ///< `command` is one mpirun, which starts the ranks.
  MpirunKind mpirun_kind = MpirunKind::kOpenMpi4;
};

/// The end of a job.
struct LaunchResult {
  int exit_status = 0;       ///< Of the launcher.
  bool may_restart = false;  ///< A rank has failed, and nobody asked the job to end.
};

/// Makes the console show, and keep in files, what the options ask for. Prints why where it cannot.
/// Tracebacks are shown at once, each whole, by --verbose or RONDE_TRACEBACKS=full.
bool prepare(Console& console, const LaunchOptions& options);

/// Runs the job to its end. Returns 0, or the exit status of the first rank that failed: 128 +
/// signal if it was killed, 126 or 127 if it could not be started. If the launcher was asked to
/// end: 128 + signal. If a host could not be reached: 1. Writes to standard output and error. Takes
/// over SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGCHLD meanwhile. Threads: call from the
/// only one.
LaunchResult launch(const LaunchOptions& options);

/// Serves one launcher from standard input and output until the ranks have ended. Returns this
/// process's exit status.
int run_agent();

/// As run_agent() if `host` is this one. Else becomes the command, which starts the agent there.
/// Returns where that cannot be run.
int run_agent_on(const std::string& host, const std::vector<std::string>& elsewhere);

}  // namespace ronde
