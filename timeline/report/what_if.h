// What changes would save, by the costs that the trace itself shows.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// One change and what it is predicted to save.
struct WhatIf {
  std::string change;   ///< "all tensors of a step in one bundle (RONDE_FUSION_THRESHOLD=16M)"
  double saved_ns = 0;  ///< Of a step.
};

/// The changes that save 1 % of a step or more, the best first. Fusion, compression and algorithm
/// are computed for the costliest path, whose bundles cost offset + slope * bytes, and count only
/// as far as its moving is exposed; they are left out where that line does not fit.
std::vector<WhatIf> what_ifs(const JobTrace& job, const Analysis& analysis);

/// What it is computed from: "a bundle of ALLREDUCE ring over tcp takes 120 us + 0.9 ms per MB", or
/// why nothing can be said of fusion, compression and algorithm.
std::string cost_model(const Analysis& analysis);

/// Share of the moving time that goes by bytes rather than by bundles: 1 where fusing more would
/// gain nothing; negative where the line of costs does not fit.
double fusion_efficiency(const Analysis& analysis);

}  // namespace ronde::report
