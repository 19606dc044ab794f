#include "core/base/settings/setting_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/join_text.h"
#include "core/base/settings/config.h"
#include "core/base/settings/setting_kinds.h"

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

/// Letters to insert, remove, replace, or exchange with the next one: the optimal string alignment
/// distance (Damerau, 1964).
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::vector<std::size_t> above = row;
  std::vector<std::size_t> before;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::span<const ProgramSetting> program_settings() {
  static const std::vector<ProgramSetting> kTable = {
      {{"RONDE_TRACEBACKS", "", "length",
        "tracebacks of Python scripts: short, without Ronde's frames, or full"},
       "short",
       {"short", "full"}},
      {{"RONDE_LEAVE_SIGNAL", "", "signal",
        "signal that makes an elastic worker leave at its next commit: TERM, USR1, off"},
       "TERM",
       {"TERM", "USR1", "off"}},
      {{"RONDE_AGENT_ADDRESS", "", "address",
        "address of this host, which --remote-shell sets where the host cannot know it"},
       "",
       {}},
  };
  return kTable;
}

Status check_program_settings(const Environment& environment) {
  for (const ProgramSetting& setting : program_settings()) {
    const std::string value = environment(std::string(setting.info.name)).value_or("");
    const auto& allowed = setting.allowed;
    if (value.empty() || allowed.empty() || std::ranges::count(allowed, value) != 0) continue;
    return bad_value(setting.info.name, value, join_text(allowed, ", "));
  }
  return {};
}

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
    const std::string_view meant = similar_name(name.substr(kPrefix.size()), documented_names());
    const std::string what = meant.empty() ? "`ronde doctor --settings` lists them"
                                           : fmt::format("{}{} is", kPrefix, meant);
    sentences.push_back(fmt::format("{} is no setting and has no effect; {}", name, what));
  }
  return sentences;
}

std::string_view similar_name(std::string_view word, std::span<const std::string_view> names) {
  std::string_view closest;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t differences = distance(word, name);
    if (differences >= least) continue;
    least = differences;
    closest = name;
  }
  return closest;
}

}  // namespace ronde
