#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "bindings/cli/commands.h"
#include "bindings/cli/elastic_options.h"

namespace ronde {
namespace {

/// A flag of Horovod whose value is a setting of Ronde, perhaps in another unit.
struct SettingFlag {
  const char* flags;
  const char* setting;
  const char* suffix;  ///< Appended to the value: converts Horovod's unit to Ronde's.
  const char* help;
};
constexpr std::array<SettingFlag, 5> kSettingFlags = {{
    {"--fusion-threshold-mb", "RONDE_FUSION_THRESHOLD", "M", "Largest fused operation, in MB"},
    {"--cache-capacity", "RONDE_CACHE_CAPACITY", "", "Known operations per process set"},
    {"--stall-check-warning-time-seconds,--stall-warning-timeout-seconds",
     "RONDE_STALL_WARNING_SECONDS", "", "Warn of operations that some ranks lack"},
    {"--stall-check-shutdown-time-seconds,--stall-shutdown-timeout-seconds",
     "RONDE_STALL_ERROR_SECONDS", "", "Fail such operations"},
    {"--network-interfaces,--network-interface,--nics", "RONDE_NETWORK_INTERFACE", "",
     "Interface between hosts"},
}};

/// A switch of Horovod that sets a setting of Ronde.
struct SwitchFlag {
  const char* flags;
  const char* entry;
  const char* help;
};
constexpr std::array<SwitchFlag, 4> kSwitchFlags = {{
    {"--disable-cache", "RONDE_CACHE_CAPACITY=0", "Negotiate each operation in full"},
    {"--no-stall-check", "RONDE_STALL_WARNING_SECONDS=0", "No warnings of operations that wait"},
    {"--gloo,--use-gloo", "", "Accepted; Ronde's own control plane takes its place"},
    {"--mpi,--use-mpi", "", "Accepted; Ronde's own control plane takes its place"},
}};

/// Flags of Horovod without an effect in Ronde. The second word marks those with a value.
constexpr std::array<std::pair<const char*, bool>, 10> kIgnored = {{
    {"--cycle-time-ms", true},
    {"--autotune", false},
    {"--no-autotune", false},
    {"--autotune-log-file", true},
    {"--hierarchical-allreduce", false},
    {"--hierarchical-allgather", false},
    {"--timeline-mark-cycles", false},
    {"--tcp", false},
    {"--mpi-args", true},
    {"--binding-args", true},
}};

/// Horovod's level in Ronde's spelling.
std::string log_level(std::string level) {
  std::ranges::transform(level, level.begin(), [](unsigned char c) { return std::tolower(c); });
  return level == "fatal" ? "error" : level;
}

void add_job_options(CLI::App& app, RunRequest& request) {
  app.add_option("--np,-n,--num-proc", request.np, "Number of ranks (also -np)")
      ->check(CLI::Range(1, 65536));
  app.add_option("-H,--hosts", request.hosts, "Hosts, as HOST:SLOTS,...");
  app.add_option("--hostfile,--host-file", request.hostfile, "File with one host on each line");
  app.add_option("-p,--ssh-port", request.ssh_port, "Port of sshd on the hosts");
  app.add_option("-i,--ssh-identity-file", request.ssh_identity_file, "Private key for ssh");
  app.add_option("--start-timeout", request.start_timeout_seconds,
                 "Seconds in which all ranks must start");
  app.add_option("--output-filename", request.output_dir, "Folder for each rank's output");
  app.add_option("--timeline-filename", request.timeline, "File for a trace of all ranks");
  app.add_flag("--horovod", request.horovod, "Ronde's own flag: `import horovod` imports ronde");
  app.add_flag("--verbose", request.verbose, "Print what is started on which host");
}

void ignore(CLI::App& app, const char* flag, bool has_value) {
  const auto note = [name = std::string(flag)] {
    fmt::print(stderr, "horovodrun: {} has no meaning in Ronde and is ignored\n", name);
  };
  if (has_value) {
    app.add_option_function<std::string>(flag, [note](const std::string&) { note(); })->group("");
  } else {
    app.add_flag_callback(flag, note)->group("");
  }
}

}  // namespace

bool is_horovodrun(const char* program) {
  return std::filesystem::path(program).filename() == "horovodrun";
}

void add_horovodrun_options(CLI::App& app, std::shared_ptr<RunRequest> request) {
  add_job_options(app, *request);
  request->elastic.as_horovod = true;
  add_elastic_options(app, request->elastic);
  app.add_option_function<std::string>(
      "--log-level",
      [request](const std::string& level) {
        request->environment.push_back("RONDE_LOG_LEVEL=" + log_level(level));
      },
      "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL");
  for (const SettingFlag& flag : kSettingFlags) {
    app.add_option_function<std::string>(
        flag.flags,
        [request, flag](const std::string& value) {
          request->environment.push_back(fmt::format("{}={}{}", flag.setting, value, flag.suffix));
        },
        flag.help);
  }
  for (const SwitchFlag& flag : kSwitchFlags) {
    app.add_flag_callback(
        flag.flags,
        [request, flag] {
          if (flag.entry[0] != '\0') request->environment.emplace_back(flag.entry);
        },
        flag.help);
  }
  for (const auto& [flag, has_value] : kIgnored) ignore(app, flag, has_value);
}

}  // namespace ronde
