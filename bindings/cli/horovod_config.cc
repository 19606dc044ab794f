#include "bindings/cli/horovod_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "core/base/horovod_names.h"

namespace ronde {
namespace {

constexpr std::string_view kFlag = "--config-file";

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin));
}

std::string without_comment(const std::string& line) {
  for (std::size_t at = line.find('#'); at != std::string::npos; at = line.find('#', at + 1)) {
    if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') return line.substr(0, at);
  }
  return line;
}

/// YAML's spellings of one value.
std::string plain_value(std::string value) {
  if (value.size() > 1 && value.front() == value.back() && (value[0] == '"' || value[0] == '\'')) {
    return value.substr(1, value.size() - 2);
  }
  std::string lower = value;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "true" || lower == "yes" || lower == "on") return "true";
  if (lower == "false" || lower == "no" || lower == "off") return "false";
  return lower == "null" || lower == "~" ? "" : value;
}

/// "key: value" of one line; the value is empty where a section begins.
std::optional<std::pair<std::string, std::string>> entry_of(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos || trimmed(line).starts_with('-')) return std::nullopt;
  const bool spaced = colon + 1 == line.size() || line[colon + 1] == ' ';
  std::string value = trimmed(line.substr(colon + 1));
  const bool nested = value.starts_with('{') || value.starts_with('[') || value.starts_with('&');
  if (!spaced || nested) return std::nullopt;
  return std::pair(trimmed(line.substr(0, colon)), plain_value(std::move(value)));
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
  const std::ifstream file(path);
  if (!file) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--config-file {}: allowed is a YAML file that can be read", path));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
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
  Arguments flags;
  std::string section;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = without_comment(line);
    const std::string bare = trimmed(line);
    if (bare.empty() || bare == "---" || bare == "...") continue;
    const auto entry = entry_of(line);
    if (!entry) {
      return Status(Code::kInvalidArgument,
                    fmt::format("line {}, \"{}\": allowed are \"section:\" and, below it, "
                                "\"key: value\"",
                                number, bare));
    }
    const bool indented = line.front() == ' ' || line.front() == '\t';
    if (!indented) section = entry->second.empty() ? entry->first + "." : "";
    if (!indented && entry->second.empty()) continue;
    const std::string key = (indented ? section : "") + entry->first;
    if (is_given(given, key)) continue;
    if (!append_flags(flags, key, entry->second)) unknown.push_back(key);
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

}  // namespace ronde
