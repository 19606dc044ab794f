// Brings the traces of all ranks of a job onto one clock, in one file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/read_progress.h"

namespace ronde {

/// What a merge has to tell besides success.
struct MergeReport {
  std::size_t events = 0;
  std::vector<std::string> truncated;  ///< Traces whose writer was cut short.
  std::int64_t clock_error_ns = 0;     ///< See JobClock::error_ns.
};

/// Merges `inputs` into `output`: a Chrome trace, or Perfetto's format where its name ends in
/// .pftrace, either compressed where it ends in .gz; or, where it ends in a slash, a file of each
/// rank in that folder, see ProfilerOutput. Time 0 is the earliest start; see JobClock.
/// A file appears whole or not at all. Reads twice. Memory: about 200 bytes for each bundle.
/// Errors: kInvalidArgument naming file and byte, or a file that says nothing of its clock;
/// kUnavailable where a file cannot be read or written.
Result<MergeReport> merge_traces(const std::vector<std::string>& inputs, const std::string& output,
                                 const ReadProgress& progress = {});

}  // namespace ronde
