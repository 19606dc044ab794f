// Findings on why training waits: late ranks, slow parts, advice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

enum class Cause : std::uint8_t {
  kUnfinished,   ///< The job ended with operations under way.
  kOutage,       ///< Connections between hosts did not work for a time.
  kStraggler,    ///< One rank is repeatedly late.
  kContention,   ///< Ranks are runnable without a core, or outnumber cores and wait for each other.
  kPipeline,     ///< Stages of a pipeline wait for their neighbours.
  kUneven,       ///< Ranks wait for one another, but not for a particular one.
  kSpan,         ///< A span of the user takes much of each step on all ranks.
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

/// A rank that is repeatedly late.
struct Straggler {
  std::size_t index = 0;          ///< Index of JobTrace::ranks.
  double wait_ns = 0;             ///< Mean time per step that each other rank waits for it.
  std::uint64_t late_steps = 0;   ///< Steps in which the others waited for it most.
  std::uint64_t late_costly = 0;  ///< The costly ones among them.
  std::uint64_t costly_steps =
      0;  ///< Steps with the longest waits, which make up most of the waiting.
};

/// The stragglers, the costliest first.
std::vector<Straggler> find_stragglers(const JobTrace& job, const Analysis& analysis);

/// The findings on ranks that wait: stragglers, cores that are taken, or ranks that are late in
/// turn. The largest waiting is always among them, unless it is below 3 % of a step.
std::vector<Finding> find_waiting(const JobTrace& job, const Analysis& analysis);

/// The operation in which ranks waited longest for others, or for the rank at `last` (an index of
/// JobTrace::ranks): "allreduce.w". Empty if none did.
std::string most_awaited(const JobTrace& job, const Analysis& analysis,
                         std::optional<std::size_t> last = {});

/// The finding on times in which connections between hosts did not work; none if they were short.
std::optional<Finding> find_outages(const JobTrace& job);

/// The finding: the rank, and the part of its step that is slow.
Finding describe(const Straggler& straggler, const JobTrace& job, const Analysis& analysis);

}  // namespace ronde::report
