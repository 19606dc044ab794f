// A growing file that holds a whole JSON array after every write.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// Where rank `rank` writes when the user asked for `path`: "a/trace.json" gives
/// "a/trace.rank3.json", "trace.json.gz" "trace.rank3.json.gz", "trace" "trace.rank3". Ranks write
/// JSON: "trace.pftrace", which is for the merged one, gives "trace.rank3.json".
std::string rank_trace_path(const std::string& path, int rank);

/// Where the files of a rank's trace before the one that is being written are: "a/trace.json" gives
/// "a/trace.rank3.part0001.json". `part` counts from 1.
std::string trace_part_path(const std::string& path, int rank, int part);
/// The files of a rank's trace that are there, in order; the last is rank_trace_path().
std::vector<std::string> trace_files(const std::string& path, int rank);

/// Whether the file of this name is to be compressed by gzip: "trace.json.gz".
bool names_gzip(std::string_view path) noexcept;
/// Whether files of this name are Perfetto's: ".pftrace" or ".perfetto-trace", or that and ".gz".
bool names_perfetto(std::string_view path) noexcept;

/// Makes the folder that a file of this name is to lie in, and those above it, where they are not
/// there. Opening the file tells where that failed.
void make_folder_of(const std::string& path);

/// Each write of a file that is compressed is a member of its own: what a kill leaves can be read
/// to the last of them. Threads: one.
class TraceFile {
 public:
  /// Creates or empties the file, and its folder where need be, and writes an array that holds
  /// `first`. Errors: kUnavailable naming the file.
  static Result<TraceFile> open(const std::string& path, std::string_view first);
  ~TraceFile();
  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&& other) noexcept;

  /// Adds `events`, each of which begins with ",\n", and closes the array again: one write, so
  /// that a reader, or a kill, finds a whole array at nearly all times, and at the other times one
  /// that lacks its end. Errors: kResourceExhausted (disk full, ...); the file is as before then.
  Status append(std::string_view events);
  /// How large the file is.
  [[nodiscard]] std::int64_t bytes() const noexcept { return end_; }

 private:
  class Gzip;

  TraceFile(int fd, std::string path);
  std::string encoded(std::string_view bytes);
  Status write_at(std::int64_t offset, std::string_view bytes);

  int fd_;
  std::string path_;
  std::unique_ptr<Gzip> gzip_;  ///< Null where the file is not compressed.
  std::string close_;           ///< The closing bracket's line.
  std::int64_t end_ = 0;        ///< Where that begins.
};

}  // namespace ronde
