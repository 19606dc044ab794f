// A growing file that holds a whole JSON array after every write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace ronde {

/// Where rank `rank` writes when the user asked for `path`: "a/trace.json" gives
/// "a/trace.rank3.json", "trace" gives "trace.rank3".
std::string rank_trace_path(const std::string& path, int rank);

/// Threads: one.
class TraceFile {
 public:
  /// Creates or empties the file, and writes an array that holds `first`.
  /// Errors: kUnavailable naming the file.
  static Result<TraceFile> open(const std::string& path, std::string_view first);
  ~TraceFile();
  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&&) = delete;

  /// Adds `events`, each of which begins with ",\n", and closes the array again: one write, so
  /// that a reader, or a kill, finds a whole array at nearly all times, and at the other times one
  /// that lacks its end. Errors: kResourceExhausted (disk full, ...); the file is as before then.
  Status append(std::string_view events);

 private:
  TraceFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status write_at(std::int64_t offset, std::string_view bytes);

  int fd_;
  std::string path_;
  std::int64_t end_ = 0;  ///< Where the closing bracket's line begins.
};

}  // namespace ronde
