#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "backends/builtin.h"
#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/launch/this_host.h"
#include "core/base/settings/horovod_names.h"

namespace ronde {
namespace {

/// Horovod's level in Ronde's spelling.
std::string log_level(std::string level) {
  std::ranges::transform(level, level.begin(), [](unsigned char c) { return std::tolower(c); });
  return level == "fatal" ? "error" : level;
}

void note(const std::string& text) { fmt::print(stderr, "horovodrun: {}\n", text); }

/// Horovod takes several interfaces to choose from: the first that this host has.
std::string chosen_interface(const std::vector<std::string>& lists) {
  std::vector<std::string> names;
  for (const std::string& list : lists) {
    for (const std::string& name : CLI::detail::split(list, ',')) names.push_back(name);
  }
  if (names.size() == 1) return names.front();
  const auto known = std::ranges::find_if(
      names, [](const std::string& name) { return chosen_address(name).ok(); });
  const std::string chosen = known == names.end() ? names.front() : *known;
  note(fmt::format(
      "--network-interfaces {}: horovodrun uses the first that this host has: {}; ronde run "
      "--network-interface spreads data over several",
      fmt::join(names, ","), chosen));
  return chosen;
}

/// The counterpart of Horovod's report of its build.
void print_build() {
  fmt::print(
      "Ronde v{}, with the API of Horovod 0.28:\n\n"
      "Available Frameworks (no build of Ronde depends on them):\n"
      "    [X] TensorFlow\n    [X] PyTorch\n    [X] Keras\n    [X] NumPy\n    [ ] MXNet\n\n"
      "Available Controllers:\n    [X] Ronde's own, in place of MPI and Gloo\n\n"
      "Available Tensor Operations (`ronde doctor` tells which can run here):\n"
      "    {}\n",
      RONDE_VERSION, backend_names());
}

void add_job_options(CLI::App& app, const std::shared_ptr<RunRequest>& shared) {
  RunRequest& request = *shared;
  app.add_option("--np,-n,--num-proc", request.np, "Number of ranks (also -np)")
      ->check(whole_number(1, 65536));
  app.add_option("-H,--hosts", request.hosts, "Hosts, as HOST:SLOTS,...");
  app.add_option("--hostfile,--host-file", request.hostfile, "File with one host on each line");
  app.add_option("-p,--ssh-port", request.launch.ssh.port, "Port of sshd on the hosts");
  app.add_option("-i,--ssh-identity-file", request.launch.ssh.identity_file, "Private key for ssh");
  app.add_option("--start-timeout", request.start_timeout_seconds,
                 "Seconds in which all ranks must start");
  app.add_option("--output-filename", request.launch.output_dir, "Folder for each rank's output");
  app.add_option("--timeline-filename", request.timeline, "File for a trace of all ranks");
  app.add_flag("--prefix-output-with-timestamp", request.launch.times,
               "Begin each line of output with the time (also -prefix-timestamp)");
  app.add_flag("--horovod", request.horovod,
               "Ronde's own flag: `import horovod` imports ronde even where Horovod is installed");
  app.add_flag("--verbose", request.launch.verbose, "Print what is started, and whole tracebacks");
  app.add_option("--config-file", "YAML file with values of flags");
  app.add_flag_callback(
      "--check-build",
      [] {
        print_build();
        exit_with(0);
      },
      "Show what this build can do (also -cb)");
  app.add_option_function<std::vector<std::string>>(
         "--network-interfaces,--network-interface,--nics",
         [shared](const std::vector<std::string>& names) {
           shared->launch.network_interface = chosen_interface(names);
         },
         "Interface between hosts")
      ->expected(1)
      ->take_all();
  app.add_option_function<std::string>(
      "--log-level",
      [shared](const std::string& level) {
        shared->environment.push_back("RONDE_LOG_LEVEL=" + log_level(level));
      },
      "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL");
}

/// A flag that sets a setting, or is told to have no effect.
void add_flag_of(CLI::App& app, const HorovodName& row,
                 const std::shared_ptr<RunRequest>& request) {
  const std::string flags(row.flags);
  const auto act = [&row, request](const std::string& value) {
    if (!row.setting.empty()) {
      request->environment.push_back(fmt::format("{}{}{}", row.setting, value, row.suffix));
    } else if (row.use == HorovodUse::kReplaced) {
      note(fmt::format("{} has no effect: {}", row.flags.substr(0, row.flags.find(',')),
                       row.meaning));
    }
  };
  CLI::Option* option = row.values == 0 ? app.add_flag_callback(flags, [act] { act(""); })
                                        : app.add_option_function<std::string>(flags, act);
  if (row.use == HorovodUse::kObeyed) {
    option->description(std::string(row.meaning));
  } else {
    option->group("");
  }
}

}  // namespace

bool is_horovodrun(const char* program) {
  return std::filesystem::path(program).filename() == "horovodrun";
}

void add_horovodrun_options(CLI::App& app, std::shared_ptr<RunRequest> request) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_job_options(app, request);
  request->elastic.as_horovod = true;
  add_elastic_options(app, request->elastic);
  for (const HorovodName& row : horovod_names()) {
    const bool own = row.use == HorovodUse::kObeyed && row.setting.empty();
    if (!row.flags.empty() && !own) add_flag_of(app, row, request);
  }
}

}  // namespace ronde
