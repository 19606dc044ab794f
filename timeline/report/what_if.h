// Predicts what changes would save, from the costs in the trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// The kind of change.
enum class Change : std::uint8_t { kRank, kOverlap, kFusion, kCompression, kAlgorithm };

/// One change and its predicted saving.
struct WhatIf {
  Change kind = Change::kRank;
  std::string change = {};  ///< "one bundle a step for 10 (RONDE_FUSION_THRESHOLD=1048576 or more)"
  double saved_ns = 0;      ///< Most likely saving per step, between the next two.
  double least_ns = 0;      ///< 0: perhaps nothing.
  double most_ns = 0;
};

/// The changes that save at least 1 % of a step and more than the steps' noise, the best first.
/// Fusion and compression use the cost curve of the costliest path, other algorithms the line
/// through it. Only exposed moving time counts. If all bundles have one size, fusion gets an upper
/// bound and other changes are left out. Compression needs a trace with coding costs.
std::vector<WhatIf> what_ifs(const JobTrace& job, const Analysis& analysis);

/// The best change of that kind, or null.
const WhatIf* best_of(const std::vector<WhatIf>& changes, Change kind);

/// "21 %", "15 to 27 %", "up to 67 %" of `step_ns`.
std::string share_text(const WhatIf& change, double step_ns);
/// "3.75 ms", "2.70 ms to 4.10 ms", "up to 27.5 ms".
std::string time_text(const WhatIf& change);

/// The cost model: "A bundle of ALLREDUCE over tcp takes 120 us and 0.9 ms per MB here.", or why
/// there is none.
std::string cost_model(const Analysis& analysis);

/// Share of the moving time that depends on bytes rather than on the number of bundles. 1: more
/// fusion gains nothing. Negative: unknown.
double fusion_efficiency(const Analysis& analysis);

}  // namespace ronde::report
