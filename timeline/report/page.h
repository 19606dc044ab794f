// The report as one HTML page that needs no network.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// The page. `text` is the text report, for readers without scripts.
std::string html_page(const JobTrace& job, const Analysis& analysis,
                      const std::vector<Finding>& findings, const std::string& text);

/// A page of `text` only, for a report without traces.
std::string text_page(const std::string& title, const std::string& text);

}  // namespace ronde::report
