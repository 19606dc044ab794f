// Names of trace files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// The file of rank `rank` for the user's `path`: "a/trace.json" gives "a/trace.rank3.json",
/// "trace.json.gz" gives "trace.rank3.json.gz", "trace" gives "trace.rank3". Ranks write JSON only:
/// "trace.pftrace", the name of a merged trace, gives "trace.rank3.json".
std::string rank_trace_path(const std::string& path, int rank);

/// The path for one epoch of a worker of an elastic job: "a/trace.worker4.epoch3.json".
std::string worker_trace_path(const std::string& path, int worker, int epoch);
/// The launcher's file of an elastic job: "a/trace.epochs.json".
std::string epochs_trace_path(const std::string& path);

/// A full file of a trace in several: "a/trace.rank3.json" gives "a/trace.rank3.part0001.json".
/// `part` counts from 1.
std::string trace_part_path(const std::string& own_path, int part);
/// The existing files of a trace, in order. The last is `own_path`.
std::vector<std::string> trace_files(const std::string& own_path);

/// The trace of a worker in one epoch.
struct WorkerTracePath {
  int worker = 0;
  int epoch = 0;
  std::string path;  ///< As worker_trace_path().
};
/// The traces of workers that exist for the user's `path`, by worker and epoch.
std::vector<WorkerTracePath> find_worker_traces(const std::string& path);

/// True if the name asks for compression by gzip: "trace.json.gz".
bool names_gzip(std::string_view path) noexcept;
/// True if the name asks for Perfetto's format: ".pftrace" or ".perfetto-trace", and perhaps ".gz".
bool names_perfetto(std::string_view path) noexcept;

/// Makes the folders of a file of this name. Errors show when the file is opened.
void make_folder_of(const std::string& path);

}  // namespace ronde
