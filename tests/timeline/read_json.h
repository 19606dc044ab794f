// Reads a file as JSON, for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/timeline/scratch.h"

namespace ronde {

/// The file as JSON; discarded where it is not.
inline nlohmann::json json_of(const std::string& path) {
  return nlohmann::json::parse(content_of(path), nullptr, false);
}

}  // namespace ronde
