// Reads the traces of a job's ranks, or the merged one, for a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/read_progress.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// Reads `paths`: one trace of each rank, or one merged trace. A trace whose end is missing gives
/// what it has, and is noted. Of each trace only the last `tail_bytes` and, of as many first bytes,
/// the names are read where that is not 0 and the trace is not compressed. Memory: see JobTrace.
/// Errors: kInvalidArgument naming the file, and the byte where it is malformed: no trace of
/// Ronde, several jobs, one rank twice, a merged trace among others; kUnavailable where a file
/// cannot be read.
Result<JobTrace> load_traces(const std::vector<std::string>& paths,
                             const ReadProgress& progress = {}, std::uint64_t tail_bytes = 0);

}  // namespace ronde::report
