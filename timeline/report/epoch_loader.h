// Loads the traces of all ranks in one epoch. A job that is not elastic is one epoch, number 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "timeline/report/job_trace.h"
#include "timeline/report/rank_loader.h"

namespace ronde::report {

/// Threads: one.
class EpochLoader {
 public:
  explicit EpochLoader(int epoch) { job_.epoch = epoch; }
  EpochLoader(const EpochLoader&) = delete;
  EpochLoader& operator=(const EpochLoader&) = delete;

  /// Begins the recording of a rank, in file `path` number `file`, or continues it. Returns the
  /// loader of its events, which lives as long as this. Errors: kInvalidArgument if the rank has a
  /// trace already.
  Result<RankLoader*> begin(RecordingInfo info, const std::string& path, std::size_t file);
  void count_event() noexcept { ++job_.events; }
  /// The file has been read.
  void end_file(std::size_t file, bool truncated);
  /// Checks and completes the traces. `tail`: only their ends were read. Errors: kInvalidArgument
  /// if they belong to several jobs.
  Result<JobTrace> finish(bool tail);

 private:
  struct Rank {
    RankTrace trace;
    std::unique_ptr<RankLoader> loader;
    std::size_t file = 0;  ///< Its last file.
  };

  [[nodiscard]] Status check_job() const;
  void take_notes();
  void note(RankTrace& trace);
  void forget_cut_ends(bool tail);

  std::map<std::int64_t, Rank> ranks_;
  JobTrace job_;
};

}  // namespace ronde::report
