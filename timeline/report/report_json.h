// The reports as JSON, for programs. docs/timeline.md lists the keys; they stay as they are.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/diff.h"
#include "timeline/report/faults.h"
#include "timeline/report/verdict.h"

namespace ronde::report {

/// The report of a job's traces. Times are milliseconds.
std::string report_json(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

/// The report of a failed job without traces.
std::string fault_json(const JobDumps& dumps, const std::vector<Finding>& findings);

/// The comparison of two runs. Times are milliseconds.
std::string diff_json(const Diff& diff);

}  // namespace ronde::report
