// Variables as a map, for what reads them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/base/settings/config.h"

namespace ronde::test {

using Variables = std::map<std::string, std::string>;

inline Environment environment_of(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

/// Both; the second one's values count.
inline Variables joined(Variables first, const Variables& second) {
  for (const auto& [name, value] : second) first[name] = value;
  return first;
}

}  // namespace ronde::test
