// Reads from a rank's standard error the exception that ended it: Python's tracebacks, and the
// message of C++ programs that end by an exception.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// An exception that nothing caught.
struct RaisedError {
  std::string text;          ///< "ValueError: bad batch 50": its first line.
  std::string place;         ///< "train.py:5": the innermost line of the user's; empty: unknown.
  bool consequence = false;  ///< It only tells that another rank has failed.
  int of_rank = -1;          ///< That rank; -1: unknown.

  /// "ValueError: bad batch 50 (train.py:5)".
  [[nodiscard]] std::string sentence() const;
  bool operator==(const RaisedError& other) const { return text == other.text; }
};

/// Output from the beginning of a traceback on, by its parts.
struct ErrorOutput {
  RaisedError error;                 ///< The last exception of a chain.
  std::vector<std::string> full;     ///< All lines of the exceptions, and what follows them.
  std::vector<std::string> shorter;  ///< The same for people: few frames, none of Ronde's.
  int left_out = 0;                  ///< Lines that `shorter` lacks.
  int trailing = 0;                  ///< Lines after the exception's first line.
};

/// The line without the prefix "[rank3]: " that torch.distributed gives each line of a traceback.
std::string_view without_rank_prefix(std::string_view line);

/// True if an exception's text begins with this line. `before`: the line before it.
bool begins_error(std::string_view line, std::string_view before);

/// True for a line of Ronde's own log.
bool is_log_line(std::string_view line);

/// True if `line`, as far as it has come, may become one that begins_error() takes.
bool may_begin_error(std::string_view line);

/// Reads output that begins with a line that begins_error() takes. Nothing if the exception's own
/// line is missing.
std::optional<ErrorOutput> read_error(std::string_view output);

}  // namespace ronde
