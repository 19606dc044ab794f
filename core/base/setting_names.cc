#include "core/base/setting_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "core/base/config.h"

namespace ronde {
namespace {

constexpr std::string_view kPrefix = "RONDE_";
/// Used between Ronde's programs, or in Python alone; not settings of a job.
constexpr std::array<std::string_view, 8> kOthers = {
    "RONDE_ELASTIC",  "RONDE_ELASTIC_COPIES", "RONDE_ELASTIC_FD",   "RONDE_EXIT_LOG_FD",
    "RONDE_FATES_FD", "RONDE_PYTHON",         "RONDE_LEAVE_SIGNAL", "RONDE_TRACEBACKS"};
constexpr std::array<std::string_view, 2> kOfTests = {"RONDE_TEST_", "RONDE_CHAOS_"};

bool is_known(std::string_view name) {
  const auto infos = setting_infos();
  return std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end() ||
         std::any_of(kOfTests.begin(), kOfTests.end(),
                     [name](std::string_view prefix) { return name.rfind(prefix, 0) == 0; }) ||
         std::any_of(infos.begin(), infos.end(),
                     [name](const SettingInfo& info) { return info.name == name; });
}

/// The edit distance: letters to insert, remove or replace (Levenshtein, 1966).
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char letter : from) {
    std::size_t corner = row[0]++;
    for (std::size_t i = 1; i <= to.size(); ++i) {
      const std::size_t replaced = corner + (to[i - 1] == letter ? 0 : 1);
      corner = row[i];
      row[i] = std::min({replaced, row[i] + 1, row[i - 1] + 1});
    }
  }
  return row.back();
}

/// The setting with the most similar name; empty if none is similar.
std::string_view meant_by(std::string_view name) {
  const std::size_t like = (name.size() - kPrefix.size()) / 3;  // letters
  const auto infos = setting_infos();
  const auto closest = std::min_element(infos.begin(), infos.end(),
                                        [name](const SettingInfo& a, const SettingInfo& b) {
                                          return distance(name, a.name) < distance(name, b.name);
                                        });
  return distance(name, closest->name) <= like ? closest->name : std::string_view();
}

}  // namespace

std::vector<std::string> process_variable_names() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::vector<std::string> describe_unknown_settings(std::span<const std::string> names) {
  std::vector<std::string> sentences;
  for (const std::string& name : names) {
    if (name.rfind(kPrefix, 0) != 0 || is_known(name)) continue;
    const std::string_view meant = meant_by(name);
    const std::string what =
        meant.empty() ? "`ronde doctor --settings` lists them" : fmt::format("{} is", meant);
    sentences.push_back(fmt::format("{} is no setting and has no effect; {}", name, what));
  }
  return sentences;
}

}  // namespace ronde
