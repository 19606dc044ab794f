// A growing file that holds a whole JSON array after every write.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// The file of rank `rank` for the user's `path`: "a/trace.json" gives "a/trace.rank3.json",
/// "trace.json.gz" gives "trace.rank3.json.gz", "trace" gives "trace.rank3". Ranks write JSON only:
/// "trace.pftrace", the name of a merged trace, gives "trace.rank3.json".
std::string rank_trace_path(const std::string& path, int rank);

/// A full file of a rank's trace: "a/trace.json" gives "a/trace.rank3.part0001.json". `part` counts
/// from 1.
std::string trace_part_path(const std::string& path, int rank, int part);
/// The existing files of a rank's trace, in order. The last is rank_trace_path().
std::vector<std::string> trace_files(const std::string& path, int rank);

/// True if the name asks for compression by gzip: "trace.json.gz".
bool names_gzip(std::string_view path) noexcept;
/// True if the name asks for Perfetto's format: ".pftrace" or ".perfetto-trace", and perhaps ".gz".
bool names_perfetto(std::string_view path) noexcept;

/// Makes the folders of a file of this name. Errors show when the file is opened.
void make_folder_of(const std::string& path);

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
