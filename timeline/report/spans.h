// The user's spans and the passes of training, summed up per step and rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// The spans of one name: means per step, in nanoseconds, by index of JobTrace::ranks.
struct SpanTime {
  std::string name;
  bool is_pass = false;          ///< A part of training that a binding marks: forward, ...
  std::vector<double> whole_ns;  ///< From begin to end.
  std::vector<double> own_ns;    ///< Without time blocked in Ronde, and time of spans inside it.

  [[nodiscard]] double mean_own_ns() const;
};

/// All spans that begin in the steps; those with the most time of their own first.
std::vector<SpanTime> span_times(const JobTrace& job, const Analysis& analysis);

/// Mean time per step outside Ronde that is in no span, by rank.
std::vector<double> unmarked_ns(const Analysis& analysis, const std::vector<SpanTime>& spans);

/// The finding on the user's span that takes much of each step on all ranks; if there is none, on
/// the time in no span. None without spans, or if that takes little.
std::optional<Finding> find_long_span(const JobTrace& job, const Analysis& analysis);

}  // namespace ronde::report
