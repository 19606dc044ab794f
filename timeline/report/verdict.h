// Sentences on why training waits: who is late, what is slow, what to do about it.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

enum class Cause : std::uint8_t {
  kUnfinished,   ///< The job ended with operations under way.
  kStraggler,    ///< One rank is late again and again.
  kContention,   ///< Ranks stand ready without a core, or outnumber cores and wait for each other.
  kUneven,       ///< Ranks wait for one another, but for none in particular.
  kTinyTensors,  ///< Many small operations, each on its own.
  kNegotiation,  ///< Agreeing and queueing cost more than they should.
  kWire,         ///< Data moves while nobody computes.
  kPack,         ///< Copies into and out of the fusion buffer.
  kFailure,      ///< What the dumps of a broken job tell; see faults.h.
  kNone,         ///< Nothing stands out.
};

/// One sentence or two, and what may help.
struct Finding {
  Cause cause = Cause::kNone;
  int rank = -1;     ///< Who is named, or -1.
  double share = 0;  ///< Of a step's time that it costs.
  std::string text = {};
  std::string advice = {};  ///< May be empty.
};

/// The findings, the costliest first; never empty. A rank is named only where it is last so often
/// that chance would do so less than once in 1,000 runs, and where the wait is worth having back.
std::vector<Finding> find_causes(const JobTrace& job, const Analysis& analysis);

/// "straggler", "wire", ... for pages and tests.
std::string_view name_of(Cause cause) noexcept;

}  // namespace ronde::report
