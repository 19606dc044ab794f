// The report as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// Verdict, time per step, tables; lines of at most about 100 characters, but for names.
std::string text_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

/// The same of a job that runs, as far as it fits a terminal: verdict, time per step, rates.
std::string live_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

}  // namespace ronde::report
