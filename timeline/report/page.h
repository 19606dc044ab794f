// The report as one HTML page that needs no network.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// The page. `text` is the text report, for readers without scripts.
std::string html_page(const JobTrace& job, const Analysis& analysis,
                      const std::vector<Finding>& findings, const std::string& text);

}  // namespace ronde::report
