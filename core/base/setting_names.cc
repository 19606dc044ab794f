#include "core/base/setting_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/config.h"
#include "core/base/program_settings.h"
#include "core/base/similar_name.h"

namespace ronde {
namespace {

constexpr std::string_view kPrefix = "RONDE_";
/// Used between Ronde's programs; not settings of a job.
constexpr std::array<std::string_view, 8> kOthers = {
    "RONDE_DESCRIPTORS", "RONDE_ELASTIC",     "RONDE_ELASTIC_COPY0_FD", "RONDE_ELASTIC_COPY1_FD",
    "RONDE_ELASTIC_FD",  "RONDE_EXIT_LOG_FD", "RONDE_JOIN_SOCKET",      "RONDE_PYTHON"};
constexpr std::array<std::string_view, 2> kOfTests = {"RONDE_TEST_", "RONDE_CHAOS_"};

/// The names of all documented variables, without kPrefix.
std::vector<std::string_view> documented_names() {
  std::vector<std::string_view> names;
  for (const SettingInfo& info : setting_infos()) names.push_back(info.name.substr(kPrefix.size()));
  for (const ProgramSetting& setting : program_settings()) {
    names.push_back(setting.info.name.substr(kPrefix.size()));
  }
  return names;
}

bool is_known(std::string_view name) {
  return std::ranges::count(kOthers, name) != 0 ||
         std::ranges::count(documented_names(), name.substr(kPrefix.size())) != 0 ||
         std::ranges::any_of(kOfTests,
                             [name](std::string_view prefix) { return name.starts_with(prefix); });
}

/// The documented variable with the most similar name; empty if none is similar.
std::string meant_by(std::string_view name) {
  const std::string_view found = similar_name(name.substr(kPrefix.size()), documented_names());
  return found.empty() ? "" : fmt::format("{}{}", kPrefix, found);
}

}  // namespace

std::vector<NamedValue> process_variables() {
  std::vector<NamedValue> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t end = std::min(text.find('='), text.size() - 1);
    variables.push_back({std::string(text.substr(0, end)), std::string(text.substr(end + 1))});
  }
  return variables;
}

std::vector<std::string> describe_unknown_settings(std::span<const NamedValue> variables) {
  std::vector<std::string> sentences = describe_horovod_variables(variables);
  for (const auto& [name, value] : variables) {
    if (name.rfind(kPrefix, 0) != 0 || is_known(name)) continue;
    const std::string meant = meant_by(name);
    const std::string what =
        meant.empty() ? "`ronde doctor --settings` lists them" : fmt::format("{} is", meant);
    sentences.push_back(fmt::format("{} is no setting and has no effect; {}", name, what));
  }
  return sentences;
}

}  // namespace ronde
