// Analysis of a job's traces: where each step's time went, which ranks the others waited for, what
// operations cost.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "timeline/report/cost_curve.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// State of a rank's training thread. In all but kOutside it is blocked in Ronde.
enum class Phase : std::uint8_t {
  kOutside,      ///< Not blocked: compute, loading data, sleep.
  kWaiting,      ///< Other ranks had not submitted this rank's operation.
  kNegotiation,  ///< All had submitted: agreement, queueing, other ranks' executors.
  kPack,         ///< Copies into and out of the fusion buffer.
  kWire,         ///< Data moves.
  kOther,        ///< Blocked by a message between two ranks, or by no known operation.
};
inline constexpr std::size_t kPhases = 6;

/// A rank that another waited for, as an index of JobTrace::ranks, and how long.
struct WaitedFor {
  std::uint32_t rank = 0;
  std::int64_t ns = 0;
};

/// One rank's step (or window of time).
struct Split {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::array<std::int64_t, kPhases> ns{};
  std::int64_t moving_ns = 0;        ///< Packing or moving data, whether blocked or not.
  std::int64_t no_core_ns = 0;       ///< Runnable without a core, in any phase.
  std::int64_t slowed_ns = 0;        ///< The part of no_core_ns in kOutside.
  std::int64_t first_submit_ns = 0;  ///< Of the step's operations; 0 if there are none.
  std::int64_t last_submit_ns = 0;
  std::vector<WaitedFor> awaited = {};  ///< Each rank once. The sum is kWaiting.

  void add_awaited(std::uint32_t rank, std::int64_t waited_ns);
  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - start_ns; }
  [[nodiscard]] std::int64_t of(Phase phase) const noexcept {
    return ns[static_cast<std::size_t>(phase)];
  }
  /// Time computing on a core.
  [[nodiscard]] std::int64_t work_ns() const noexcept { return of(Phase::kOutside) - slowed_ns; }
  /// Time moving data while the training thread computed.
  [[nodiscard]] std::int64_t overlapped_ns() const noexcept {
    return moving_ns - of(Phase::kPack) - of(Phase::kWire);
  }
};

/// A step of all ranks.
struct Step {
  std::uint64_t number = 0;
  std::vector<Split> ranks;  ///< Indexed like JobTrace::ranks.
  /// Total time that others waited for this rank because it worked longer than they did. Excludes
  /// time without a core and time blocked.
  std::vector<std::int64_t> blamed_ns;
};

/// One bundle over all ranks.
struct Bundle {
  const OperationSpan* span = nullptr;  ///< The span of one rank.
  std::uint32_t ranks = 0;              ///< Number of traces that have it.
  std::uint32_t last = 0;  ///< The rank that submitted last, as an index of JobTrace::ranks.
  std::int64_t first_ready_ns = 0;  ///< When the first rank had submitted all tensors.
  std::int64_t ready_ns = 0;        ///< When all ranks had.
  std::int64_t started_ns = 0;      ///< When the last rank started.
  std::int64_t ended_ns = 0;        ///< When the last rank ended.

  [[nodiscard]] std::int64_t skew_ns() const noexcept { return ready_ns - first_ready_ns; }
  [[nodiscard]] std::int64_t moving_ns() const noexcept { return ended_ns - started_ns; }
};

/// The cost of one path's bundles.
struct PathCost {
  Path path;
  bool compressed = false;
  std::uint64_t bundles = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::int64_t moving_ns = 0;
  double bus_gbps = 0;   ///< Bytes through each rank's link per nanosecond, as in ronde bench.
  double best_gbps = 0;  ///< Speed of the fastest twentieth of its large bundles.
  CostCurve cost;        ///< A bundle's time by its bytes.
};

/// Fusion of tensors, per step.
struct Fusion {
  double bundles = 0;
  double tensors = 0;
  double bytes = 0;
  double median_bundle_bytes = 0;
  /// Share of operations submitted after the previous one had ended.
  double one_by_one = 0;
};

struct Analysis {
  bool by_steps = false;  ///< False: windows of time.
  std::string
      inferred_first;  ///< Not empty if steps were inferred: each begins before this operation.
  std::vector<Step> steps;
  std::vector<Bundle> bundles;  ///< By end.
  std::vector<PathCost> paths;  ///< The costliest first.
  /// Likewise. Dense allreduces over one data plane are one path here, "ALLREDUCE over tcp": their
  /// algorithm depends on the bytes.
  std::vector<PathCost> ways;
  Fusion fusion;
};

/// Analyses `job`, which must outlive the result.
Analysis analyze(const JobTrace& job);

/// Inferred steps. Each begins when the last operation before a certain one has ended: the
/// operation that all ranks run equally often and before which rank 0 computes longest. In training
/// that is the first gradient of a step. The first step, which warms up, is left out, as in
/// analyze().
struct InferredSteps {
  std::string first;  ///< The operation's name; empty if there is none.
  std::vector<Step> steps = {};
};

/// The index of the step in which the rank, the `rank`-th of the job, is at that time; the number
/// of steps if it is in none.
std::size_t step_at(const Analysis& analysis, std::size_t rank, std::int64_t time_ns);

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
