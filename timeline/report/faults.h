// The dumps of a job that failed or hangs, and the rank and operation at fault.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/dump.h"
#include "timeline/report/verdict.h"

namespace ronde::report {

/// The most informative dump of each rank.
struct JobDumps {
  std::vector<Dump> ranks;         ///< By rank; some may be missing.
  std::vector<std::string> notes;  ///< Remarks about the files.

  [[nodiscard]] bool empty() const noexcept { return ranks.empty(); }
};

/// Removes dumps from `paths` and returns them. A folder stands for the dumps in it. The remaining
/// paths are traces. Errors: kInvalidArgument naming a folder without dumps.
Result<std::vector<std::string>> take_dumps(std::vector<std::string>& paths);

/// Reads dumps. For each rank it keeps the last one with a failure, or else the last one. Of
/// several jobs it keeps the one that wrote last, with a note. Errors: kInvalidArgument naming file
/// and line; kUnavailable if a file cannot be read; kResourceExhausted if one is larger than ranks
/// write.
Result<JobDumps> load_dumps(const std::vector<std::string>& paths);

/// The findings, the most important first; never empty. Names a rank if the others report its
/// failure, or if it alone has not submitted an operation that others wait for.
std::vector<Finding> find_faults(const JobDumps& dumps);

/// Verdict and state of each rank. Lines have about 100 characters at most, plus names.
std::string fault_report(const JobDumps& dumps, const std::vector<Finding>& findings);

}  // namespace ronde::report
