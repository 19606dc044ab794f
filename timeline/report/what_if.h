// What changes would save, by the costs that the trace itself shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// What is changed.
enum class Change : std::uint8_t { kRank, kOverlap, kFusion, kCompression, kAlgorithm };

/// One change and what it is predicted to save.
struct WhatIf {
  Change kind = Change::kRank;
  std::string change = {};  ///< "one bundle a step for 10 (RONDE_FUSION_THRESHOLD=1048576 or more)"
  double saved_ns = 0;      ///< Of a step, the likeliest, as the next two, between which it lies.
  double least_ns = 0;      ///< 0: maybe nothing.
  double most_ns = 0;
};

/// The changes that save 1 % of a step or more, and more than steps differ by chance, the best
/// first. Fusion and compression are computed by the curve of costs of the costliest way, another
/// algorithm by the line through it, and count only as far as moving is exposed. Where all bundles
/// are of one size fusion has a bound only, and the others are left out; so is compression in
/// traces that do not say what coding takes.
std::vector<WhatIf> what_ifs(const JobTrace& job, const Analysis& analysis);

/// The best of that kind, or null.
const WhatIf* best_of(const std::vector<WhatIf>& changes, Change kind);

/// "21 %", "15 to 27 %", "up to 67 %": of `step_ns`.
std::string share_text(const WhatIf& change, double step_ns);
/// "3.75 ms", "2.70 ms to 4.10 ms", "up to 27.5 ms".
std::string time_text(const WhatIf& change);

/// What it is computed from: "a bundle of ALLREDUCE over tcp takes 120 us and 0.9 ms per MB", or
/// why that cannot be said.
std::string cost_model(const Analysis& analysis);

/// Share of the moving time that goes by bytes rather than by bundles: 1 where fusing more would
/// gain nothing; negative where the line of costs is not known.
double fusion_efficiency(const Analysis& analysis);

}  // namespace ronde::report
