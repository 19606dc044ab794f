#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/commands.h"
#include "bindings/runtime/job_settings.h"
#include "core/base/os/folders.h"
#include "core/base/settings/config.h"
#include "core/base/settings/setting_names.h"

namespace ronde {
namespace {

/// An option that sets a variable, and `value` in its help.
struct SettingOption {
  const char* option;
  const char* variable;
  const char* value;
  const char* help;
};

constexpr std::array kSettingOptions = {
    SettingOption{"--algorithm", "RONDE_ALGORITHM", "NAME",
                  "Algorithm of all collectives that have it; default: by size"},
    SettingOption{"--compression", "RONDE_COMPRESSION", "CODEC",
                  "Codec of gradients whose call names none: auto, fp16, int8, ..."},
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
    if (given != request.settings.end()) all.push_back({row.option, row.variable, given->second});
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

}  // namespace

void add_setting_options(CLI::App& command, RunRequest& request) {
  for (const SettingOption& row : kSettingOptions) {
    command.add_option(row.option, request.settings[row.variable], row.help)->type_name(row.value);
  }
}

Result<EnvironmentList> given_settings(const RunRequest& request) {
  RONDE_RETURN_IF_ERROR(check_program_settings(process_environment()));
  EnvironmentList list;
  for (const GivenSetting& given : settings_of(request)) {
    if (given.value.empty()) continue;
    RONDE_RETURN_IF_ERROR(by_option(check_given(given), given));
    list.push_back(fmt::format("{}={}", given.name, given.value));
  }
  return list;
}

}  // namespace ronde
