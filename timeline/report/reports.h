// The report of a job as text, and as one HTML page that needs no network.
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

/// The page. `text` is the text report, for readers without scripts.
std::string html_page(const JobTrace& job, const Analysis& analysis,
                      const std::vector<Finding>& findings, const std::string& text);

/// A page of `text` only, for a report without traces.
std::string text_page(const std::string& title, const std::string& text);

}  // namespace ronde::report
