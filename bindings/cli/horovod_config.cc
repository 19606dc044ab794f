#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "bindings/cli/command_line.h"
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

}  // namespace ronde
