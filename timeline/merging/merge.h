// Merges the traces of all ranks of a job into one file, on one clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/reading/trace_reader.h"

namespace ronde {

/// Facts about a merge.
struct MergeReport {
  std::size_t events = 0;
  std::vector<std::string> truncated;  ///< Traces whose end is missing.
  std::int64_t clock_error_ns = 0;     ///< See JobClock::error_ns.
};

/// Merges `inputs` into `output`, whose name selects the format. It is a Chrome trace, or
/// Perfetto's format for .pftrace, compressed for .gz. A name that ends in a slash is a folder with
/// one file for each rank, see ProfilerOutput. Time 0 is the earliest start; see JobClock. A file
/// appears whole or not at all. Reads twice. Memory: about 200 bytes for each bundle. Errors:
/// kInvalidArgument naming file and byte, or a file without a clock; kUnavailable if a file cannot
/// be read or written.
Result<MergeReport> merge_traces(const std::vector<std::string>& inputs, const std::string& output,
                                 const ReadProgress& progress = {});

}  // namespace ronde
