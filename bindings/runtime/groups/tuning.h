// Tuning files: which algorithm is fastest where, as `ronde bench --tune` measured it. JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "ops/selection/selector.h"

namespace ronde {

/// The most that a tuning file may hold: it travels in one frame.
inline constexpr std::size_t kMaxTuningBytes = std::size_t{32} << 10;

/// The circumstances of a tuning, for people.
struct TuningFacts {
  std::string host;
  int cores = 0;
  int ranks = 0;
  std::string backend;
};

/// The text of a tuning file, one row a line.
std::string format_tuning(std::span<const SelectionRow> rows, const TuningFacts& facts);

/// The rows of such a text; `origin` names it in errors.
/// Errors: kInvalidArgument with the line of what is no JSON, or the key, its value and what is
/// allowed.
Result<std::vector<SelectionRow>> parse_tuning(std::string_view text, std::string_view origin);

/// Reads a file. Errors: kInvalidArgument where it cannot be read or is over kMaxTuningBytes.
Result<std::string> read_tuning(const std::string& path);

}  // namespace ronde
