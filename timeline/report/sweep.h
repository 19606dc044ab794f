// Splits one rank's time into phases of its training thread.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// Indices of Analysis::bundles by the number of the bundle.
using BundleIndex = std::unordered_map<std::uint64_t, std::uint32_t>;

/// When the data of `span` began to move: once the last rank had started.
std::int64_t moving_from(const OperationSpan& span, const Bundle& bundle);

/// Computes the phases of `rank`, the `index`-th of the job, in each step, and the ranks it waited
/// for.
void sweep_rank(const RankTrace& rank, std::size_t index, const BundleIndex& index_of,
                Analysis& analysis);

}  // namespace ronde::report
