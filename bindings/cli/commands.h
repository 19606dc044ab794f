// The commands of `ronde`, and how the request of `ronde run` becomes a job.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "bindings/cli/command_line.h"
#include "bindings/cli/launch/launcher.h"
#include "core/base/status.h"

namespace ronde {

struct ElasticOptions;

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
  std::map<std::string, std::string>
      settings;  ///< By variable: see kSettingOptions, run_command.cc.
  std::vector<std::string> environment;
  double start_timeout_seconds = 0;  ///< 0: not given.
  int restarts = 0;                  ///< Of a job that is not elastic.
  ElasticRequest elastic;
  bool horovod = false;     ///< `import horovod` imports ronde.
  std::string call_folder;  ///< Of ronde.run(): see CallFolder; empty: none.
  LaunchOptions launch;     ///< Options that are the launcher's own; run_job() fills in the rest.
  Arguments command;        ///< Not an option: see take_command().
};

/// Runs the command that `arguments` ask for; `program` is the name of this one. Returns the exit
/// status.
int run_command_line(const char* program, const Arguments& arguments);

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

/// Adds the subcommand. It reads and changes nothing.
void add_top_command(CLI::App& app);

/// Adds the subcommand.
void add_doctor_command(CLI::App& app);

/// Adds the subcommand. `arguments` are those of this program without its name: its ranks are
/// started with them. The callback ends by throwing CLI::RuntimeError with the exit status.
CLI::App* add_bench_command(CLI::App& app, const Arguments& arguments);

/// Adds the options of elastic jobs, also in horovodrun's spellings.
void add_elastic_options(CLI::App& app, ElasticRequest& request);

/// Refuses options that do not go together, naming what is allowed. For every job.
Status check_elastic_options(const RunRequest& request);

/// Seconds by the option, or else by Horovod's variable; 0 without either.
/// Errors: kInvalidArgument naming the variable and its value.
Result<double> seconds_of(double given, const char* variable);

inline std::chrono::milliseconds to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<long long>(seconds * 1000));
}

/// The slots of one host that the options ask for; 0 where they ask for none.
int asked_slots(const RunRequest& request);

/// The elastic job that was asked for. `launch`: its other options.
/// Errors: kInvalidArgument naming the option and what is allowed.
Result<ElasticOptions> elastic_options(const RunRequest& request, const LaunchOptions& launch);

/// The variables of the options that are given, for all ranks. They are checked here, before any
/// rank starts, and so are the variables that ranks inherit and `ronde run` reads.
/// Errors: kInvalidArgument naming the option, or the variable, its value and what is allowed.
Result<EnvironmentList> given_settings(const RunRequest& request);

}  // namespace ronde
