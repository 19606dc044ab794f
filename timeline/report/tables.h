// Rows of a report's tables, for text and page.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// A tensor's operations on all ranks.
struct TensorRow {
  std::string name;
  TensorCost cost;
};

/// The `most` tensors with the longest execution and negotiation.
std::vector<TensorRow> costliest_tensors(const JobTrace& job, std::size_t most);

/// The `most` bundles with the longest moving time.
std::vector<const Bundle*> costliest_bundles(const Analysis& analysis, std::size_t most);

/// "allreduce.w and 29 more".
std::string name_of(const Bundle& bundle, const JobTrace& job);

/// A step to show, and the reason: the slowest, the one that waits most, ...
struct ChosenStep {
  std::size_t index = 0;
  std::string why;
};
std::vector<ChosenStep> chosen_steps(const Analysis& analysis);

}  // namespace ronde::report
