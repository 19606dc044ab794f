// Finds the rank and operation at fault in the dumps of a job that failed or hangs.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/dumps.h"
#include "timeline/report/verdict.h"

namespace ronde::report {

/// The findings, the most important first; never empty. Names a rank if the others report its
/// failure, or if it alone has not submitted an operation that others wait for.
std::vector<Finding> find_faults(const JobDumps& dumps);

/// Verdict and state of each rank. Lines have about 100 characters at most, plus names.
std::string fault_report(const JobDumps& dumps, const std::vector<Finding>& findings);

}  // namespace ronde::report
