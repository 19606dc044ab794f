#include "bindings/cli/run_settings.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "bindings/runtime/named_choices.h"
#include "core/base/config.h"
#include "core/base/os/folders.h"
#include "core/base/program_settings.h"

namespace ronde {
namespace {

/// A setting, its option, and the option's value; empty: not given.
struct GivenSetting {
  std::string_view option;
  std::string_view name;
  std::string value;
};

std::vector<GivenSetting> settings_of(const RunRequest& request) {
  const std::string timeline = request.timeline.empty() ? "" : absolute_path(request.timeline);
  return {{"--backend", "RONDE_BACKEND", request.backend},
          {"--algorithm", "RONDE_ALGORITHM", request.algorithm},
          {"--compression", "RONDE_COMPRESSION", request.compression},
          {"--metrics-port", "RONDE_METRICS_PORT", request.metrics_port},
          {"--metrics-address", "RONDE_METRICS_ADDRESS", request.metrics_address},
          {"--network-interface", "RONDE_NETWORK_INTERFACE", request.network_interface},
          {"--encryption", "RONDE_ENCRYPTION", request.encryption},
          {"--max-connections", "RONDE_MAX_CONNECTIONS", request.max_connections},
          {"--timeline", "RONDE_TIMELINE", timeline}};
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
