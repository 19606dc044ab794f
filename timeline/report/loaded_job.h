// All traces of a job: of each epoch, and the story that joins them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/report/job_story.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// A job as its traces show it.
struct LoadedJob {
  std::map<int, JobTrace> epochs;  ///< By number, at least one; 0 alone in a job not elastic.
  std::vector<EpochStory> story;   ///< Empty in a job not elastic.

  [[nodiscard]] bool elastic() const noexcept { return !epochs.contains(0); }
  /// The number of the epoch whose traces last longest.
  [[nodiscard]] int longest_epoch() const;
};

/// Reads `paths`: one trace of each rank (of each worker in each epoch, and the launcher's), or one
/// merged trace. Truncated traces are read as far as they go, with a note. If `tail_bytes` is not
/// 0, reads only that many last bytes of uncompressed traces, and the names in that many first
/// bytes. Memory: see JobTrace. Errors: kInvalidArgument naming the file, and the byte if it is
/// malformed: no trace of Ronde, several jobs, one rank twice, a merged trace among others;
/// kUnavailable if a file cannot be read.
Result<LoadedJob> load_job(const std::vector<std::string>& paths, const ReadProgress& progress = {},
                           std::uint64_t tail_bytes = 0);

}  // namespace ronde::report
