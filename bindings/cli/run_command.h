// `ronde run`: starts a job on this host and others.
#pragma once

#include <memory>

#include "bindings/cli/arguments.h"

namespace CLI {
class App;
}

namespace ronde {

/// The user's request, as given. The callback of the subcommand checks it and runs the job.
struct RunRequest {
  int np = 0;
  std::string hosts;
  std::string hostfile;
  std::string timeline;
  std::string backend;
  std::string algorithm;
  std::string compression;
  std::string metrics_port;
  std::string metrics_address;
  std::vector<std::string> environment;
  int ssh_port = 0;
  std::string ssh_identity_file;
  std::vector<std::string> ssh_options;
  std::string remote_program;
  std::string network_interface;
  std::string output_dir;
  double start_timeout_seconds = 0;  ///< 0: not given.
  bool horovod = false;              ///< `import horovod` imports ronde.
  bool verbose = false;
  Arguments command;  ///< Not an option: see take_command().
};

/// Adds the subcommand. Its callback ends by throwing CLI::RuntimeError with the job's exit status.
CLI::App* add_run_command(CLI::App& app, std::shared_ptr<RunRequest> request);

/// Checks the request, runs the job, and ends by throwing CLI::RuntimeError as above.
void run_job(const RunRequest& request);

}  // namespace ronde
