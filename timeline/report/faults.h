// What the dumps of a job that failed or hangs add up to: the rank and the operation at fault.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/dumps.h"
#include "timeline/report/verdict.h"

namespace ronde::report {

/// The findings, the one that explains most first; never empty. A rank is named where the others
/// say that it failed, or where it alone has not submitted what others wait for.
std::vector<Finding> find_faults(const JobDumps& dumps);

/// Verdict, and what each rank was doing; lines of at most about 100 characters, but for names.
std::string fault_report(const JobDumps& dumps, const std::vector<Finding>& findings);

}  // namespace ronde::report
