// Findings on why training waits: late ranks, slow parts, advice.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

enum class Cause : std::uint8_t {
  kUnfinished,   ///< The job ended with operations under way.
  kStraggler,    ///< One rank is repeatedly late.
  kContention,   ///< Ranks are runnable without a core, or outnumber cores and wait for each other.
  kUneven,       ///< Ranks wait for one another, but not for a particular one.
  kTinyTensors,  ///< Many small operations, each on its own.
  kNegotiation,  ///< Agreement and queueing are slow.
  kWire,         ///< Data moves while no rank computes.
  kPack,         ///< Copies into and out of the fusion buffer.
  kFailure,      ///< A failure found in dumps; see faults.h.
  kNone,         ///< Nothing stands out.
};

/// A cause in one or two sentences, with advice.
struct Finding {
  Cause cause = Cause::kNone;
  int rank = -1;     ///< The rank named, or -1.
  double share = 0;  ///< Share of a step's time that it costs.
  std::string text = {};
  std::string advice = {};  ///< May be empty.
};

/// The findings, the costliest first; never empty. Names a rank only if it is last significantly
/// often (p < 0.001) and the wait is worth saving.
std::vector<Finding> find_causes(const JobTrace& job, const Analysis& analysis);

/// "straggler", "wire", ... for pages and tests.
std::string_view name_of(Cause cause) noexcept;

}  // namespace ronde::report
