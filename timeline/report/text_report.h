// The report as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// Verdict, time per step, tables. Lines have about 100 characters at most, plus names.
std::string text_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

/// The same for a running job, short enough for a terminal: verdict, time per step, rates.
std::string live_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

}  // namespace ronde::report
