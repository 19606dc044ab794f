#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/builtin.h"
#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/job_traces.h"
#include "bindings/cli/launch/elastic/elastic_launcher.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/mpirun.h"
#include "bindings/cli/launch/this_host.h"
#include "bindings/runtime/injection.h"
#include "bindings/runtime/job_settings.h"
#include "core/base/os/folders.h"
#include "core/base/os/interfaces.h"
#include "core/base/settings/config.h"
#include "core/base/settings/launchers.h"
#include "core/base/settings/setting_names.h"
#include "timeline/recording/trace_file.h"

namespace ronde {
namespace {

/// An option that sets a variable, and `value` in its help.
struct SettingOption {
  const char* option;
  const char* variable;
  const char* value;
  const char* help;
};

constexpr std::string_view kInject = "RONDE_INJECT";

constexpr std::array kSettingOptions = {
    SettingOption{"--algorithm", "RONDE_ALGORITHM", "NAME",
                  "Algorithm of all collectives that have it; default: by size"},
    SettingOption{"--compression", "RONDE_COMPRESSION", "CODEC",
                  "Codec of gradients whose call names none: auto, fp16, int8, ..."},
    SettingOption{"--check-replicas", "RONDE_REPLICA_CHECK_STEPS", "STEPS",
                  "Compare hashes of parameters and optimizer state between ranks every N steps"},
    SettingOption{"--replica-action", "RONDE_REPLICA_CHECK", "ACTION",
                  "Where they differ: warn (default), fail, or repair"},
    SettingOption{"--check-nonfinite", "RONDE_CHECK_NONFINITE", "MODE",
                  "Find who puts NaN or Inf into reductions: off, warn, fail, or skip, which also "
                  "leaves out the optimizer's step"},
    SettingOption{"--check-mean", "RONDE_CHECK_MEAN", "NAME",
                  "Compare sums and averages whose names have NAME in them with float64"},
    SettingOption{"--check-sums", "RONDE_CHECK_SUMS", "N",
                  "Compute some elements of one of N allreduces once more, drawn by lot"},
    SettingOption{"--checksums", "RONDE_CHECKSUMS", "0|1",
                  "Check all data by checksums on its way between ranks"},
    SettingOption{"--inject", "RONDE_INJECT", "FAULT",
                  "Plant a fault, to rehearse: nan, flip, drift, sum, slow, kill or cut, as "
                  "flip:rank=1,tensor=layer3.weight,step=20; may repeat"},
    SettingOption{"--metrics-port", "RONDE_METRICS_PORT", "NUMBER",
                  "Serve Prometheus metrics: local rank r of each host at this port + r"},
    SettingOption{"--metrics-address", "RONDE_METRICS_ADDRESS", "ADDRESS",
                  "Address that serves metrics; default 127.0.0.1"},
    SettingOption{"--encryption", "RONDE_ENCRYPTION", "MODE",
                  "Encrypt connections between hosts: off, on, or required, which also refuses "
                  "backends that cannot"},
    SettingOption{"--max-connections", "RONDE_MAX_CONNECTIONS", "NUMBER",
                  "Data connections of a rank with ranks of other hosts; beyond that, idle ones "
                  "are closed until they are used again; default 0: no limit"},
};

/// A setting, its option, and the option's value; empty: not given.
struct GivenSetting {
  std::string_view option;
  std::string_view name;
  std::string value;
};

std::vector<GivenSetting> settings_of(const RunRequest& request) {
  const std::string timeline = request.timeline.empty() ? "" : absolute_path(request.timeline);
  std::vector<GivenSetting> all = {
      {"--backend", "RONDE_BACKEND", request.backend},
      {"--network-interface", "RONDE_NETWORK_INTERFACE", request.launch.network_interface},
      {"--timeline", "RONDE_TIMELINE", timeline}};
  for (const SettingOption& row : kSettingOptions) {
    const auto given = request.settings.find(row.variable);
    if (given == request.settings.end()) continue;
    const bool asks = row.variable == kInject && !given->second.empty();
    const std::string before = asks ? std::string(kAskedFor) : "";
    all.push_back({row.option, row.variable, before + given->second});
  }
  return all;
}

Status check_given(const GivenSetting& given) {
  Config scratch;
  RONDE_RETURN_IF_ERROR(set_setting(scratch, given.name, given.value));
  return check_named_choices(scratch);
}

/// The error names the option, for the user has not written the variable.
Status by_option(const Status& status, const GivenSetting& given) {
  const std::string variable = fmt::format("{}=", given.name);
  const std::string_view message = status.message();
  if (status.ok() || !message.starts_with(variable)) return status.with_context(given.option);
  return {status.code(), fmt::format("{} {}", given.option, message.substr(variable.size()))};
}

/// Adds the options that do nothing but set a variable of the ranks.
void add_setting_options(CLI::App& command, RunRequest& request) {
  for (const SettingOption& row : kSettingOptions) {
    CLI::Option* option = command.add_option(row.option, request.settings[row.variable], row.help);
    option->type_name(row.value);
    if (row.variable == kInject) option->join(';');
  }
}

/// A variable of an earlier drill plants no fault.
Status check_no_fault_is_left(const RunRequest& request) {
  const auto given = request.settings.find(std::string(kInject));
  if (given != request.settings.end() && !given->second.empty()) return {};
  const std::string left = process_environment()(std::string(kInject)).value_or("");
  if (left.empty()) return {};
  return {
      Code::kInvalidArgument,
      fmt::format("RONDE_INJECT=\"{}\" is set, but there is no --inject: faults are planted only "
                  "where that option asks for them; unset RONDE_INJECT",
                  left)};
}

}  // namespace

Result<EnvironmentList> given_settings(const RunRequest& request) {
  RONDE_RETURN_IF_ERROR(check_program_settings(process_environment()));
  RONDE_RETURN_IF_ERROR(check_no_fault_is_left(request));
  EnvironmentList list;
  for (const GivenSetting& given : settings_of(request)) {
    if (given.value.empty()) continue;
    RONDE_RETURN_IF_ERROR(by_option(check_given(given), given));
    list.push_back(fmt::format("{}={}", given.name, given.value));
  }
  return list;
}

namespace {

/// The names of these variables, each once.
std::vector<std::string> names_of(const EnvironmentList& list) {
  std::set<std::string> names;
  for (const std::string& entry : list) names.insert(entry.substr(0, entry.find('=')));
  return {names.begin(), names.end()};
}

Status check_mpi_args(const RunRequest& request) {
  if (request.mpi_args.empty() || request.backend == "mpi") return {};
  return {
      Code::kInvalidArgument,
      fmt::format("--mpi-args \"{}\" is for mpirun: give --backend mpi, too", request.mpi_args)};
}

/// Makes the job one mpirun on this host if its backend is MPI. Blocks until mpirun has printed its
/// version. Errors: kInvalidArgument for arguments of mpirun in another job, and those of
/// mpirun_command().
Status start_through_mpirun(const RunRequest& request, LaunchOptions& options) {
  RONDE_RETURN_IF_ERROR(check_mpi_args(request));
  if (request.backend != "mpi") return {};
  const auto kind = installed_mpirun();
  if (!kind.ok()) return kind.status().with_context("--backend mpi");
  options.mpirun_kind = *kind;
  MpirunSpec spec{.hosts = options.hosts,
                  .command = options.command,
                  .ssh = options.ssh,
                  .network_interface = options.network_interface,
                  .kind = options.mpirun_kind,
                  .arguments = CLI::detail::split_up(request.mpi_args)};
  if (options.hosts.size() > 1) {
    EnvironmentList variables = forwarded_environment();
    variables.insert(variables.end(), options.environment.begin(), options.environment.end());
    variables.insert(variables.end(), {"MASTER_ADDR", "MASTER_PORT"});
    spec.variables = names_of(variables);
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    const cpu_set_t cpus = allowed_cpus();          // the agent sees one process, not its ranks
    const int threads = omp_threads(CPU_COUNT(&cpus), options.hosts.front().ranks);
    options.environment.insert(options.environment.begin(),
                               fmt::format("OMP_NUM_THREADS={}", threads));
  }
  RONDE_ASSIGN_OR_RETURN(options.command, mpirun_command(spec));
  RONDE_ASSIGN_OR_RETURN(const EnvironmentList list, mpirun_environment(spec));
  options.environment.insert(options.environment.end(), list.begin(), list.end());
  options.hosts = {{"", 0, 1}};
  options.through_mpirun = true;
  return {};
}

constexpr const char* kExamples =
    "Examples:\n"
    "  ronde run -np 2 train.py\n"
    "  ronde run -np 2 python train.py\n"
    "  ronde run -np 8 -H node1:4,node2:4 --timeline trace.json python train.py --epochs 3\n"
    "  ronde run --hostfile hosts.txt --env DATA=/data -- ./train\n"
    "  ronde run -np 4 --restarts 3 python train.py\n"
    "  ronde run -np 4 --min-np 2 python train_elastic.py\n"
    "  ronde run --min-np 2 --max-np 8 --host-discovery-script ./hosts.sh python train_elastic.py\n"
    "A hostfile names one host on each line: \"node1 slots=4\". A script FILE.py runs with this\n"
    "Python. Output lines begin with [rank]; the last lines of a job that fails sum it up. The\n"
    "exit status is that of the rank that failed first. --stdin chooses who gets standard input.\n";

/// Hosts with their ranks. This host's name becomes empty: it needs no ssh.
Result<std::vector<HostRanks>> placed_hosts(const RunRequest& request) {
  if (request.hosts.empty() && request.hostfile.empty()) {
    return std::vector<HostRanks>{{"", 0, request.np == 0 ? 1 : request.np}};
  }
  const int slots = std::max(1, request.elastic.slots_per_host);
  auto hosts = request.hosts.empty() ? read_hostfile(request.hostfile, slots)
                                     : parse_hosts(request.hosts, slots);
  if (!hosts.ok()) return hosts.status();
  RONDE_ASSIGN_OR_RETURN(std::vector<HostRanks> placed, place_ranks(*hosts, request.np));
  int own = 0;
  for (HostRanks& host : placed) {
    if (!request.launch.ssh.shell.empty() || !is_this_host(host.name)) continue;
    if (++own > 1) {
      return Status(Code::kInvalidArgument,
                    fmt::format("host \"{}\" is this host, which is named before", host.name));
    }
    host.name.clear();
  }
  return placed;
}

bool lists_hosts(const RunRequest& request) {
  return !request.hosts.empty() || !request.hostfile.empty() ||
         !request.elastic.discovery_script.empty();
}

/// The interface is that of rank 0. On another host its agent checks it, as rank 0 of an elastic
/// job may run on any host that is listed.
Status check_interface(const RunRequest& request, const LaunchOptions& options) {
  const bool listed = lists_hosts(request);
  const bool here = options.hosts.empty() ? !listed : options.hosts.front().name.empty();
  const std::string& interfaces = options.network_interface;
  if (interfaces.empty() || !here) return {};
  for (const std::string& one : listed_interfaces(interfaces)) {
    const Status known = chosen_address(one).status();
    if (!known.ok()) return known.with_context("--network-interface " + interfaces);
  }
  return {};
}

/// Makes the folder of the trace, which ranks of this host cannot do without. A name that ends in a
/// slash is a folder itself.
Status prepare_timeline(const std::string& timeline) {
  if (timeline.empty()) return {};
  const auto folder = std::filesystem::path(absolute_path(timeline)).parent_path();
  const bool is_new = !is_folder(folder);
  RONDE_RETURN_IF_ERROR(make_output_folder("--timeline", folder.string()));
  if (is_new) {
    fmt::print(stderr, "ronde run: made the folder {} for --timeline\n", folder.string());
  }
  return timeline.ends_with('/') ? Status() : check_output_file("--timeline", timeline);
}

Status check_stdin(const RunRequest& request, const LaunchOptions& options) {
  const int rank = options.agents.stdin_rank;
  if (rank < 0) return {};
  if (request.elastic.wanted() || options.through_mpirun) {
    return {Code::kInvalidArgument,
            "--stdin is for jobs that are neither elastic nor started by mpirun"};
  }
  if (rank < options.size) return {};
  return {Code::kInvalidArgument,
          fmt::format("--stdin {}: allowed are ranks 0 to {}", rank, options.size - 1)};
}

/// The folder of the package that serves `import horovod`; none without --horovod or horovodrun.
/// It lies beside this program in the installed Python package, where no interpreter finds it.
/// Horovod itself has precedence with horovodrun: its package looks for that first.
Result<std::string> horovod_folder(const RunRequest& request) {
  if (!request.horovod && !request.elastic.as_horovod) return std::string();
  RONDE_ASSIGN_OR_RETURN(std::filesystem::path folder, own_program());
  folder.replace_filename(request.horovod ? "_horovod_alias" : "_horovod_fallback");
  if (is_folder(folder)) return folder.string();
  if (!request.horovod) return std::string();
  return Status(Code::kUnsupported,
                fmt::format("--horovod needs ronde's Python package, which is not installed beside "
                            "this program: there is no {}",
                            folder.string()));
}

/// PYTHONPATH for the ranks, which begins with `folder`.
std::string python_path(const std::string& folder, const EnvironmentList& given) {
  const char* inherited = std::getenv("PYTHONPATH");  // NOLINT(concurrency-mt-unsafe)
  std::string rest = inherited == nullptr ? "" : inherited;
  for (const std::string& entry : given) {
    if (entry.rfind("PYTHONPATH=", 0) == 0) rest = entry.substr(entry.find('=') + 1);
  }
  return "PYTHONPATH=" + folder + (rest.empty() ? "" : ":" + rest);
}

/// The variables that all ranks get.
Result<EnvironmentList> ranks_environment(const RunRequest& request) {
  RONDE_ASSIGN_OR_RETURN(EnvironmentList list, given_settings(request));
  if (request.start_timeout_seconds > 0) {
    list.push_back(
        fmt::format("RONDE_START_TIMEOUT_MS={}", to_ms(request.start_timeout_seconds).count()));
  }
  for (const std::string& text : request.environment) {
    RONDE_ASSIGN_OR_RETURN(std::string entry, environment_entry(text));
    list.push_back(std::move(entry));
  }
  RONDE_ASSIGN_OR_RETURN(const std::string folder, horovod_folder(request));
  if (!folder.empty()) list.push_back(python_path(folder, list));
  return list;
}

Result<LaunchOptions> launch_options(const RunRequest& request) {
  if (request.command.empty()) {
    return Status(Code::kInvalidArgument,
                  "there is no command to run; give it after the options, such as: ronde run -np 2 "
                  "python train.py");
  }
  RONDE_RETURN_IF_ERROR(check_elastic_options(request));
  LaunchOptions options = request.launch;
  RONDE_ASSIGN_OR_RETURN(options.directory, current_folder());
  if (!request.elastic.wanted()) {
    RONDE_ASSIGN_OR_RETURN(options.hosts, placed_hosts(request));
    options.size = options.hosts.back().first_rank + options.hosts.back().ranks;
  }
  RONDE_ASSIGN_OR_RETURN(options.environment, ranks_environment(request));
  options.command =
      request.elastic.as_horovod ? runnable_as_horovod(request.command) : runnable(request.command);
  RONDE_RETURN_IF_ERROR(check_needs_no_shell(options.command));
  RONDE_ASSIGN_OR_RETURN(options.program, own_program());
  if (options.ssh.remote_program.empty()) options.ssh.remote_program = options.program;
  options.call_folder = CallFolder(request.call_folder);
  RONDE_ASSIGN_OR_RETURN(options.call_frames, options.call_folder.frames());
  RONDE_ASSIGN_OR_RETURN(const double seconds,
                         seconds_of(request.start_timeout_seconds, "HOROVOD_START_TIMEOUT"));
  if (seconds > 0) options.start_timeout = to_ms(seconds);
  RONDE_RETURN_IF_ERROR(check_interface(request, options));
  RONDE_RETURN_IF_ERROR(start_through_mpirun(request, options));
  RONDE_RETURN_IF_ERROR(check_stdin(request, options));
  RONDE_RETURN_IF_ERROR(make_output_folder("--output-dir", options.output_dir));
  RONDE_RETURN_IF_ERROR(prepare_timeline(request.timeline));
  return options;
}

void add_remote_options(CLI::App& command, RunRequest& request) {
  LaunchOptions& launch = request.launch;
  command.add_option("-p,--ssh-port", launch.ssh.port, "Port of sshd on the hosts")
      ->check(CLI::Range(1, 65535));
  command.add_option("--ssh-identity-file", launch.ssh.identity_file, "Private key for ssh")
      ->check(CLI::ExistingFile);
  command
      .add_option("--ssh-option", launch.ssh.options, "Option for ssh -o, as Key=Value; may repeat")
      ->expected(1)
      ->take_all();
  command.add_option("--remote-ronde", launch.ssh.remote_program,
                     "Path of ronde on the other hosts; default: the path here");
  command.add_option("--remote-shell", launch.ssh.shell,
                     "Program that runs a command on a host, as PROGRAM HOST COMMAND, for all "
                     "hosts that are named; default: ssh, for the other hosts");
  command
      .add_option("--agent-fan-out", launch.agent_fan_out,
                  "Hosts that one host starts at most: where there are more, they start further "
                  "ones; default 32")
      ->check(CLI::Range(1, 100000));
  command.add_option("--network-interface", launch.network_interface,
                     "Interface, by name or address, for connections between hosts; data is spread "
                     "over several, such as eth0,eth1");
  command
      .add_option("--start-timeout", request.start_timeout_seconds,
                  "Seconds in which all hosts and ranks must start; default 60")
      ->check(CLI::Range(0.1, 86400.0));
}

/// Starts all ranks again after a failure, as often as is allowed. Faults are planted once.
int launch_attempts(LaunchOptions options, int restarts) {
  for (;; ++options.attempt) {
    const LaunchResult result = launch(options);
    if (!result.may_restart || options.attempt > restarts) return result.exit_status;
    std::erase_if(options.environment, [](const std::string& entry) {
      return entry.starts_with(fmt::format("{}=", kInject));
    });
    fmt::print(stderr, "ronde run: attempt {} of {}: all ranks start again (--restarts)\n",
               options.attempt + 1, restarts + 1);
  }
}

/// Workers write their traces without --timeline, too, if this variable is set.
std::string timeline_of(const RunRequest& request) {
  if (!request.timeline.empty()) return request.timeline;
  return process_environment()("RONDE_TIMELINE").value_or("");
}

/// The command that the user typed.
const char* name_of(const RunRequest& request) {
  return request.elastic.as_horovod ? "horovodrun" : "ronde run";
}

[[noreturn]] void refuse(const RunRequest& request, const Status& why) {
  CallFolder(request.call_folder).write_failure(why.message());
  exit_usage(name_of(request), why);
}

/// The launcher's exit status: 1 where the job succeeded but its trace could not be written.
int with_trace(int job_status, bool merged) { return job_status == 0 && !merged ? 1 : job_status; }

[[noreturn]] void run_elastic_job(const RunRequest& request, const LaunchOptions& launch) {
  auto options = elastic_options(request, launch);
  if (!options.ok()) refuse(request, options.status());
  options->timeline = timeline_of(request);
  if (!options->timeline.empty()) forget_elastic_traces(options->timeline);
  const ElasticResult result = launch_elastic(*options);
  bool merged = true;
  if (!request.timeline.empty()) {
    fetch_elastic_traces(request.timeline, result.parts, launch.ssh);
    merged = merge_elastic_traces(request.timeline);
  }
  exit_with(with_trace(result.exit_status, merged));
}

/// Without a list of hosts they are the nodes of Slurm's allocation, if there is one.
Result<RunRequest> with_allocated_hosts(RunRequest request) {
  if (lists_hosts(request)) return request;
  const int asked = request.elastic.wanted() ? asked_slots(request) : request.np;
  RONDE_ASSIGN_OR_RETURN(request.hosts, slurm_hosts(process_environment(), asked));
  return request;
}

/// How many ranks, on which hosts.
void add_host_options(CLI::App& command, RunRequest& request) {
  command
      .add_option("--np,-n,--num-proc", request.np,
                  "Number of ranks (also -np); default: all slots, or 1")
      ->check(whole_number(1, 65536));
  CLI::Option* hosts = command.add_option(
      "-H,--hosts", request.hosts,
      "Hosts, as HOST[:SLOTS],...; default: this host, or the nodes of Slurm's allocation");
  hosts->check(not_empty());
  command.add_option("--hostfile", request.hostfile, "File with one host on each line")
      ->check(not_empty())
      ->excludes(hosts);
}

}  // namespace

void run_job(const RunRequest& given) {
  forget_own_rank();
  const auto found = with_allocated_hosts(given);
  if (!found.ok()) refuse(given, found.status());
  const RunRequest& request = *found;
  const auto options = launch_options(request);
  if (!options.ok()) refuse(request, options.status());
  if (request.elastic.wanted()) run_elastic_job(request, *options);
  if (!request.timeline.empty()) forget_traces(request.timeline, options->size);
  const int status = launch_attempts(*options, request.restarts);
  bool merged = true;
  if (!request.timeline.empty()) {
    fetch_traces(request.timeline, *options);
    merged = merge_job_traces(request.timeline, options->size);
  }
  exit_with(with_trace(status, merged));
}

CLI::App* add_run_command(CLI::App& app, std::shared_ptr<RunRequest> request) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Start N ranks of a program, here or on other hosts: ronde run [OPTIONS] [--] COMMAND...");
  command->footer(kExamples);
  add_host_options(*command, *request);
  command
      ->add_option("--timeline", request->timeline,
                   "Write a trace of all ranks to this file when the job ends")
      ->check(not_empty());
  command->add_option("--backend", request->backend, "Data plane: " + backend_names());
  command->add_option("--mpi-args", request->mpi_args,
                      "With --backend mpi: more arguments of mpirun, in one word");
  command
      ->add_option("--env", request->environment,
                   "Environment variable for all ranks, as NAME or NAME=VALUE; may repeat")
      ->expected(1)
      ->take_all();
  command
      ->add_option("--output-dir", request->launch.output_dir,
                   "Folder: also write each rank's output to a file there")
      ->check(not_empty());
  command->add_flag("--horovod", request->horovod,
                    "Make `import horovod` in Python scripts import ronde");
  command->add_flag("--verbose", request->launch.verbose,
                    "Print what is started on which host, and whole tracebacks");
  command
      ->add_option(
          "--restarts", request->restarts,
          "Start all ranks again after a failure, this many times (elastic jobs replace the "
          "failed ones alone); default 0")
      ->check(whole_number(0, 1'000'000));
  command
      ->add_option("--stdin", request->launch.agents.stdin_rank,
                   "Rank that gets this program's standard input, as for pdb; default: none")
      ->check(whole_number(0, 65535));
  command->add_flag("--prefix-output-with-timestamp", request->launch.times,
                    "Begin each line of output with the time");
  command->add_option("--call-folder", request->call_folder)->group("");  // of ronde.run()
  add_elastic_options(*command, request->elastic);
  add_setting_options(*command, *request);
  add_remote_options(*command, *request);
  command->callback([request] { run_job(*request); });
  return command;
}

}  // namespace ronde
