// The report of a job as text, as JSON, and as one HTML page that needs no network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "timeline/report/diff.h"
#include "timeline/report/faults.h"
#include "timeline/report/job_history.h"
#include "timeline/report/summary.h"
#include "timeline/report/verdict.h"

namespace ronde::report {

/// Verdict, time per step, tables. Lines have about 100 characters at most, plus names.
std::string text_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

/// A report on a running job, short enough for a terminal: verdict, time per step, rates.
std::string live_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

/// The parts of a page. They outlive it.
struct PageParts {
  const JobTrace& job;
  const Analysis& analysis;
  const std::vector<Finding>& findings;
  const std::string& text;              ///< The text report, for readers without scripts.
  std::span<const Epoch> history = {};  ///< Of an elastic job.
};

/// The page.
std::string html_page(const PageParts& parts);

/// A page of `text` only, for a report without traces.
std::string text_page(const std::string& title, const std::string& text);

/// The report of a job's traces, for programs and for the page. Times are milliseconds.
nlohmann::ordered_json report_data(const JobTrace& job, const Analysis& analysis,
                                   const std::vector<Finding>& findings);
/// Means of steps as report_data() has them.
nlohmann::ordered_json times_json(const Means& means);

/// The same as text.
std::string report_json(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings);

/// The report of a failed job without traces.
std::string fault_json(const JobDumps& dumps, const std::vector<Finding>& findings);

/// The comparison of two runs. Times are milliseconds.
std::string diff_json(const Diff& diff);

}  // namespace ronde::report
