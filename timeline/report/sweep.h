// Goes through one rank's time and says what its training thread did, moment by moment.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// Bundles by their numbers, as indices of Analysis::bundles.
using BundleIndex = std::unordered_map<std::uint64_t, std::uint32_t>;

/// When the moving of `span` began in earnest: once the last rank had started.
std::int64_t moving_from(const OperationSpan& span, const Bundle& bundle);

/// Fills in what `rank`, the `index`-th of the job, did in each of the steps, and whom it waited
/// for.
void sweep_rank(const RankTrace& rank, std::size_t index, const BundleIndex& index_of,
                Analysis& analysis);

}  // namespace ronde::report
