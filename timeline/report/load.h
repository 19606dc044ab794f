// Reads the traces of a job's ranks, or the merged one, for a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/read_progress.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// Reads `paths`: one trace of each rank, or one merged trace. Truncated traces are read as far as
/// they go, with a note. If `tail_bytes` is not 0, reads only that many last bytes of uncompressed
/// traces, and the names in that many first bytes. Memory: see JobTrace. Errors: kInvalidArgument
/// naming the file, and the byte if it is malformed: no trace of Ronde, several jobs, one rank
/// twice, a merged trace among others; kUnavailable if a file cannot be read.
Result<JobTrace> load_traces(const std::vector<std::string>& paths,
                             const ReadProgress& progress = {}, std::uint64_t tail_bytes = 0);

}  // namespace ronde::report
