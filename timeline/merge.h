// Brings the traces of all ranks of a job onto one clock, in one file.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// What a merge has to tell besides success.
struct MergeReport {
  std::size_t events = 0;
  std::vector<std::string> truncated;  ///< Traces whose writer was cut short.
};

/// Merges `inputs` into `output`: a Chrome trace, or Perfetto's format where its name ends in
/// .pftrace, either compressed where it ends in .gz. Time 0 is the earliest start. Recordings of
/// one boot of one host share a steady clock and are aligned by it exactly; hosts are aligned by
/// their wall clocks. The output appears whole or not at all. Memory: one event. Errors:
/// kInvalidArgument naming file and byte, or a file that says nothing of its clock; kUnavailable
/// where a file cannot be read or written.
Result<MergeReport> merge_traces(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace ronde
