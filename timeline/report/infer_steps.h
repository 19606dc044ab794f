// Training steps of a job that did not mark them, by what it does again and again.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// Steps that each begin where the last operation before a certain one has ended: of the operations
/// that all ranks make equally often, the one before which rank 0 computes most. That is the first
/// gradient of a step, where it is a training job. As analyze() has them, without what comes before
/// the second: warming up.
struct InferredSteps {
  std::string first;  ///< The operation's name; empty: none could be told.
  std::vector<Step> steps = {};
};

/// Names alone tell operations apart, and bytes where they have none.
InferredSteps infer_steps(const JobTrace& job);

}  // namespace ronde::report
