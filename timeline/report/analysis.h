// What the traces of a job add up to: where each step's time went, who was waited for, what the
// operations cost.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "timeline/report/cost_curve.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// What a rank's training thread was doing. All but kCompute: blocked in Ronde, and why.
enum class Phase : std::uint8_t {
  kCompute,      ///< Not blocked.
  kWaiting,      ///< Others had not submitted what this rank had.
  kNegotiation,  ///< All had submitted; agreeing, queueing, other ranks' executors.
  kPack,         ///< Copies into and out of the fusion buffer.
  kWire,         ///< Data moving.
  kOther,        ///< Blocked without a collective of its own: messages between two ranks, ...
};
inline constexpr std::size_t kPhases = 6;

/// For whom a rank waited, as an index of JobTrace::ranks, and how long.
struct WaitedFor {
  std::uint32_t rank = 0;
  std::int64_t ns = 0;
};

/// One rank's step (or window of time).
struct Split {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::array<std::int64_t, kPhases> ns{};
  std::int64_t moving_ns = 0;        ///< Packing or moving, blocked or not.
  std::int64_t no_core_ns = 0;       ///< Ready to run without a core, in whatever phase,
  std::int64_t slowed_ns = 0;        ///< and of that in kCompute.
  std::int64_t first_submit_ns = 0;  ///< Of the step's operations; 0 where there are none.
  std::int64_t last_submit_ns = 0;
  std::vector<WaitedFor> awaited = {};  ///< Each rank once; they add up to kWaiting.

  void add_awaited(std::uint32_t rank, std::int64_t waited_ns);
  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - start_ns; }
  [[nodiscard]] std::int64_t of(Phase phase) const noexcept {
    return ns[static_cast<std::size_t>(phase)];
  }
  /// Computing, on a core.
  [[nodiscard]] std::int64_t work_ns() const noexcept { return of(Phase::kCompute) - slowed_ns; }
  /// Moving while the training thread computed.
  [[nodiscard]] std::int64_t overlapped_ns() const noexcept {
    return moving_ns - of(Phase::kPack) - of(Phase::kWire);
  }
};

/// A step of all ranks.
struct Step {
  std::uint64_t number = 0;
  std::vector<Split> ranks;  ///< As JobTrace::ranks.
  /// How long others, in sum, waited for this rank because it worked longer than they did: not
  /// because it had no core, or was itself held up.
  std::vector<std::int64_t> blamed_ns;
};

/// One bundle over all ranks.
struct Bundle {
  const OperationSpan* span = nullptr;  ///< On one of its ranks.
  std::uint32_t ranks = 0;              ///< In how many traces it is.
  std::uint32_t last = 0;               ///< Who submitted last, as an index of JobTrace::ranks.
  std::int64_t first_ready_ns = 0;      ///< When the first rank had submitted all of it.
  std::int64_t ready_ns = 0;            ///< When all had.
  std::int64_t started_ns = 0;          ///< When the last rank started.
  std::int64_t ended_ns = 0;            ///< When the last rank ended.

  [[nodiscard]] std::int64_t skew_ns() const noexcept { return ready_ns - first_ready_ns; }
  [[nodiscard]] std::int64_t moving_ns() const noexcept { return ended_ns - started_ns; }
};

/// What the bundles of one path cost.
struct PathCost {
  Path path;
  bool compressed = false;
  std::uint64_t bundles = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::int64_t moving_ns = 0;
  double bus_gbps = 0;   ///< Bytes through each rank's link per nanosecond; see ronde bench.
  double best_gbps = 0;  ///< Of its large bundles the fastest twentieth reach this.
};

/// What bundles cost by their bytes. Dense allreduces over one data plane are one path here,
/// "ALLREDUCE over tcp": their algorithm depends on the bytes.
struct WayCost {
  Path path;
  bool compressed = false;
  std::uint64_t bundles = 0;
  std::uint64_t bytes = 0;
  std::int64_t moving_ns = 0;
  CostCurve cost;
};

/// How well tensors were fused, per step.
struct Fusion {
  double bundles = 0;
  double tensors = 0;
  double bytes = 0;
  double median_bundle_bytes = 0;
  /// Share of the operations that were submitted only once the one before had ended.
  double one_by_one = 0;
};

struct Analysis {
  bool by_steps = false;       ///< Otherwise windows of time.
  std::string inferred_first;  ///< Steps were not marked: they begin before this operation.
  std::vector<Step> steps;
  std::vector<Bundle> bundles;  ///< In the order of their ends.
  std::vector<PathCost> paths;  ///< The costliest first.
  std::vector<WayCost> ways;    ///< Likewise.
  Fusion fusion;
};

/// Reads `job`, which must outlive the result.
Analysis analyze(const JobTrace& job);

}  // namespace ronde::report
