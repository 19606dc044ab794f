// Infers the training steps of a job without marks from repeated operations.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// Inferred steps. Each begins when the last operation before a certain one has ended: the
/// operation that all ranks run equally often and before which rank 0 computes longest. In training
/// that is the first gradient of a step. The first step, which warms up, is left out, as in
/// analyze().
struct InferredSteps {
  std::string first;  ///< The operation's name; empty if there is none.
  std::vector<Step> steps = {};
};

/// Infers steps. Operations are distinguished by name, unnamed ones by bytes.
InferredSteps infer_steps(const JobTrace& job);

}  // namespace ronde::report
