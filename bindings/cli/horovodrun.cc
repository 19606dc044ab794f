#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include "backends/builtin.h"
#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/launch/this_host.h"
#include "core/base/join_text.h"
#include "core/base/os/folders.h"
#include "core/base/settings/horovod_names.h"

namespace ronde {
namespace {

constexpr std::string_view kFlag = "--config-file";
constexpr const char* kAllowed = "allowed are \"section:\" and, below it, \"key: value\"";

/// One "key: value" of the file; the key has its section before it.
struct Entry {
  std::string key;
  std::string value;  ///< "true" or "false" for each of YAML's spellings.
};

/// The refusal of a file, with the line that the error is about.
Status refusal(const std::string& text, const YAML::Exception& error) {
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i <= error.mark.line; ++i) std::getline(lines, line);
  line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
  return {Code::kInvalidArgument,
          fmt::format("line {}, \"{}\": {}", error.mark.line + 1, line, error.msg)};
}

std::string value_of(const YAML::Node& node) {
  if (node.IsNull()) return {};
  bool truth = false;
  const bool quoted = node.Tag() == "!";
  if (!quoted && YAML::convert<bool>::decode(node, truth)) return truth ? "true" : "false";
  return node.Scalar();
}

/// Appends the entries of a section, or of the file, whose sections have entries of their own.
/// Throws YAML::Exception for other values.
void append_entries(const YAML::Node& map, const std::string& section,
                    std::vector<Entry>& entries) {
  for (const auto& pair : map) {
    const YAML::Node& key = pair.first;
    const YAML::Node& value = pair.second;
    if (value.IsMap() && section.empty()) {
      append_entries(value, key.as<std::string>() + ".", entries);
    } else if (value.IsScalar() || value.IsNull()) {
      entries.push_back({section + key.as<std::string>(), value_of(value)});
    } else {
      throw YAML::Exception(value.Mark(), kAllowed);
    }
  }
}

Result<std::vector<Entry>> entries_of(const std::string& text) {
  std::vector<Entry> entries;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap() && !root.IsNull()) throw YAML::Exception(root.Mark(), kAllowed);
    append_entries(root, "", entries);
  } catch (const YAML::Exception& error) {
    return refusal(text, error);
  }
  return entries;
}

bool gives(const Arguments& given, std::string_view flags) {
  return std::ranges::any_of(given, [&](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    return ("," + std::string(flags) + ",").find("," + name + ",") != std::string::npos;
  });
}

std::string_view key_of(const HorovodName& row) {
  return row.config.substr(0, row.config.find('='));
}

/// True if the command line has a flag for this key, or for its opposite.
bool is_given(const Arguments& given, std::string_view key) {
  return std::ranges::any_of(horovod_names(), [&](const HorovodName& row) {
    return !row.config.empty() && key_of(row) == key && gives(given, row.flags);
  });
}

std::string first_flag(const HorovodName& row) {
  return std::string(row.flags.substr(0, row.flags.find(',')));
}

/// Appends the flags for one key. False if the key has no meaning.
bool append_flags(Arguments& flags, const std::string& key, const std::string& value) {
  bool known = false;
  for (const HorovodName& row : horovod_names()) {
    if (row.config.empty() || key_of(row) != key) continue;
    known = true;
    if (row.values > 0 && !value.empty()) {
      flags.insert(flags.end(), {first_flag(row), value});
    } else if (row.values == 0 &&
               (row.config == key ? value == "true" : row.config == key + "=" + value)) {
      flags.push_back(first_flag(row));
    }
  }
  return known;
}

Result<std::string> text_of(const std::string& path) {
  auto text = read_file(path);
  if (text.ok()) return text;
  return Status(Code::kInvalidArgument,
                fmt::format("--config-file {}: {}; allowed is a YAML file that can be read", path,
                            text.status().message()));
}

/// Takes the flag with its value out of the words. Nothing if it is not there.
std::optional<std::string> take_file(Arguments& arguments) {
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (word->starts_with(std::string(kFlag) + "=")) {
      std::string path = word->substr(kFlag.size() + 1);
      arguments.erase(word);
      return path;
    }
    if (*word != kFlag || std::next(word) == arguments.end()) continue;
    std::string path = *std::next(word);
    arguments.erase(word, word + 2);
    return path;
  }
  return std::nullopt;
}

}  // namespace

Result<Arguments> horovod_config_flags(std::string_view text, const Arguments& given,
                                       Arguments& unknown) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<Entry> entries, entries_of(std::string(text)));
  Arguments flags;
  for (const auto& [key, value] : entries) {
    if (is_given(given, key)) continue;
    if (!append_flags(flags, key, value)) unknown.push_back(key);
  }
  return flags;
}

Status expand_horovod_config(Arguments& arguments) {
  while (const auto path = take_file(arguments)) {
    RONDE_ASSIGN_OR_RETURN(const std::string text, text_of(*path));
    Arguments unknown;
    const auto flags = horovod_config_flags(text, arguments, unknown);
    if (!flags.ok()) return flags.status().with_context("--config-file " + *path);
    for (const std::string& key : unknown) {
      fmt::print(stderr, "horovodrun: --config-file {}: {} has no meaning and no effect\n", *path,
                 key);
    }
    arguments.insert(arguments.begin(), flags->begin(), flags->end());
  }
  return {};
}

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
      join_text(names, ","), chosen));
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
