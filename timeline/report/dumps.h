// The dumps of a job's flight recorders, as a report reads them.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/dump.h"

namespace ronde::report {

/// The dump of each rank that tells most of how the job ended.
struct JobDumps {
  std::vector<Dump> ranks;         ///< By rank; not all need be there.
  std::vector<std::string> notes;  ///< What a reader ought to know of the files.

  [[nodiscard]] bool empty() const noexcept { return ranks.empty(); }
};

/// Takes out of `paths` what is a dump, or a folder that holds dumps: its files are taken in its
/// place. The rest, traces, stays. Errors: kInvalidArgument naming a folder without dumps.
Result<std::vector<std::string>> take_dumps(std::vector<std::string>& paths);

/// Reads dumps. Of each rank the last one that tells of a failure counts, or else its last one; of
/// several jobs the one that wrote last, which is noted.
/// Errors: kInvalidArgument naming file and line; kUnavailable where a file cannot be read;
/// kResourceExhausted where one is larger than ranks write them.
Result<JobDumps> load_dumps(const std::vector<std::string>& paths);

}  // namespace ronde::report
