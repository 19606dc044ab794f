// A growing file that holds a whole JSON array after every write.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"
#include "timeline/recording/trace_paths.h"

namespace ronde {

/// A trace file on disk. Each write of a compressed file is a gzip member of its own, so that a
/// kill leaves all earlier members readable. Threads: one.
class TraceFile {
 public:
  /// Creates or empties the file, creates its folder, and writes an array that holds `first`.
  /// Errors: kUnavailable naming the file.
  static Result<TraceFile> open(const std::string& path, std::string_view first);
  ~TraceFile();
  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&& other) noexcept;

  /// Appends `events`, each of which begins with ",\n", and closes the array again in the same
  /// write. A reader finds a whole array, or rarely one without its end. Errors: kResourceExhausted
  /// (disk full, ...), which leaves the file as it was.
  Status append(std::string_view events);
  /// The size of the file.
  [[nodiscard]] std::int64_t bytes() const noexcept { return end_; }

 private:
  class Gzip;

  TraceFile(FileDescriptor fd, std::string path);
  std::string encoded(std::string_view bytes);
  Status write_at(std::int64_t offset, std::string_view bytes);

  FileDescriptor fd_;
  std::string path_;
  std::unique_ptr<Gzip> gzip_;  ///< Null if the file is not compressed.
  std::string close_;           ///< The closing bracket's line.
  std::int64_t end_ = 0;        ///< The offset of the closing bracket's line.
};

}  // namespace ronde
