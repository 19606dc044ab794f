// Reads the events of a Chrome trace one by one, whatever its size.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "core/base/status.h"

namespace ronde {

/// One event as it stands in the file.
struct RawEvent {
  std::string text;          ///< A JSON object.
  std::uint64_t offset = 0;  ///< Its first byte in the file.
};

/// Takes both forms of the format: an array of events, and an object with "traceEvents". A file
/// whose end is missing (its writer was killed) gives the events that are whole.
/// Threads: one. Memory: one event.
class TraceReader {
 public:
  /// Errors: kUnavailable naming the file.
  static Result<TraceReader> open(const std::string& path);

  /// The next event, or nothing at the end. Errors: kInvalidArgument naming the file, the byte and
  /// what was expected there.
  Result<std::optional<RawEvent>> next();

  /// Whether the end of the file was missing; once next() has given nothing.
  [[nodiscard]] bool truncated() const noexcept { return truncated_; }

 private:
  enum class Place { kBefore, kInside, kAfter };

  explicit TraceReader(std::ifstream file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  int take();
  int take_after_space();
  Status enter();
  Status find_events();
  std::string take_string();
  void skip_value(int first);
  bool take_object(std::string& text);
  [[nodiscard]] Status unexpected(int got, const char* wanted) const;

  std::ifstream file_;
  std::string path_;
  std::uint64_t position_ = 0;
  Place place_ = Place::kBefore;
  bool truncated_ = false;
};

}  // namespace ronde
