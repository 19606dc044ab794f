// The steps of a job: inferred where none are marked, split into phases.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
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

/// Indices of Analysis::bundles by the number of the bundle.
using BundleIndex = std::unordered_map<std::uint64_t, std::uint32_t>;

/// When the data of `span` began to move: once the last rank had started.
std::int64_t moving_from(const OperationSpan& span, const Bundle& bundle);

/// Computes the phases of `rank`, the `index`-th of the job, in each step, and the ranks it waited
/// for.
void sweep_rank(const RankTrace& rank, std::size_t index, const BundleIndex& index_of,
                Analysis& analysis);

}  // namespace ronde::report
