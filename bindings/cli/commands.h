// The commands of `ronde`. Each function adds one to the command line.
#pragma once

#include <memory>
#include <string>

#include "bindings/cli/command_line.h"

namespace CLI {
class App;
}

namespace ronde {

/// The options of elastic jobs, as given.
struct ElasticRequest {
  int min_np = 0;  ///< 0: not given; likewise below.
  int max_np = 0;
  std::string discovery_script;
  int slots_per_host = 0;
  int reset_limit = -1;  ///< -1: not given.
  double timeout_seconds = 0;
  std::vector<double> cooldown_seconds;  ///< Empty, or the shortest and the longest.
  std::string on_failure;
  bool as_horovod = false;  ///< horovodrun's defaults: hosts are blacklisted, --min-np is -np.

  /// The job is elastic.
  [[nodiscard]] bool wanted() const noexcept {
    return min_np > 0 || max_np > 0 || !discovery_script.empty() || !on_failure.empty();
  }
};

/// The user's request, as given. The callback of the subcommand checks it and runs the job.
struct RunRequest {
  int np = 0;
  std::string hosts;
  std::string hostfile;
  std::string timeline;
  std::string backend;
  std::string mpi_args;  ///< For mpirun, as in a shell.
  std::string algorithm;
  std::string compression;
  std::string metrics_port;
  std::string metrics_address;
  std::vector<std::string> environment;
  int ssh_port = 0;
  std::string ssh_identity_file;
  std::vector<std::string> ssh_options;
  std::string remote_program;
  std::string remote_shell;
  int agent_fan_out = 32;
  std::string network_interface;
  std::string encryption;
  std::string max_connections;
  std::string output_dir;
  double start_timeout_seconds = 0;  ///< 0: not given.
  int restarts = 0;                  ///< Of a job that is not elastic.
  ElasticRequest elastic;
  bool horovod = false;  ///< `import horovod` imports ronde.
  bool verbose = false;
  bool times = false;       ///< Each line of output begins with the time.
  int stdin_rank = -1;      ///< This rank gets the launcher's standard input; -1: none does.
  std::string call_folder;  ///< Of ronde.run(): see CallFolder; empty: none.
  Arguments command;        ///< Not an option: see take_command().
};

/// Adds the subcommand. Its callback ends by throwing CLI::RuntimeError with the job's exit status.
CLI::App* add_run_command(CLI::App& app, std::shared_ptr<RunRequest> request);

/// Checks the request, runs the job, and ends by throwing CLI::RuntimeError as above.
void run_job(const RunRequest& request);

/// True if this program was started as horovodrun.
bool is_horovodrun(const char* program);

/// Adds all flags of horovodrun 0.28. Flags without an effect are accepted with a note.
void add_horovodrun_options(CLI::App& app, std::shared_ptr<RunRequest> request);

/// Adds the subcommand and its own: merge, report, diff, view.
void add_timeline_command(CLI::App& app);

/// Adds the subcommands to `timeline`.
void add_report_command(CLI::App& timeline);
void add_diff_command(CLI::App& timeline);

/// Adds the subcommand to `timeline`. The server is the Python package's: it runs in the
/// interpreter that started this program.
void add_view_command(CLI::App& timeline);

/// Adds the subcommand. It reads and changes nothing.
void add_top_command(CLI::App& app);

/// Adds the subcommand.
void add_doctor_command(CLI::App& app);

void add_build_command(CLI::App& app);

/// Adds the subcommand. `arguments` are those of this program without its name: its ranks are
/// started with them. The callback ends by throwing CLI::RuntimeError with the exit status.
CLI::App* add_bench_command(CLI::App& app, const Arguments& arguments);

}  // namespace ronde
