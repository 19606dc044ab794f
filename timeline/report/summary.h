// Averages and tables of an analysis, and texts for figures.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// Means per step and rank, in nanoseconds.
struct Means {
  double step_ns = 0;
  std::array<double, kPhases> phase_ns{};
  double moving_ns = 0;
  double overlapped_ns = 0;
  double no_core_ns = 0;  ///< Runnable without a core; included in the phases.

  [[nodiscard]] double of(Phase phase) const noexcept {
    return phase_ns[static_cast<std::size_t>(phase)];
  }
  [[nodiscard]] double share(Phase phase) const noexcept {
    return step_ns > 0 ? of(phase) / step_ns : 0;
  }
};

/// Means over all ranks, or of one (an index of JobTrace::ranks).
Means means_of(const Analysis& analysis, std::optional<std::size_t> rank = {});

/// The median duration of a step.
double median_step_ns(const Analysis& analysis);

/// "outside Ronde", "waiting for ranks", ...
std::string_view name_of(Phase phase) noexcept;
/// Its key in JSON: "outside_ms", "waiting_ms", ...
std::string_view key_of(Phase phase) noexcept;

/// A note on the inference of steps; empty if they were marked.
std::string steps_note(const Analysis& analysis);

/// The slowest rank's memory copy at the end of the recording, in GB/s; 0 if unknown.
double memory_gbps(const JobTrace& job);

/// A sentence about what to compare bandwidths with.
std::string bandwidth_note(const JobTrace& job);

inline double ms(double ns) noexcept { return ns / 1e6; }
inline double ms(std::int64_t ns) noexcept { return ms(static_cast<double>(ns)); }
inline double percent(double share) noexcept { return 100 * share; }
/// "41.2 ms", "1.21 s", "87.0 us", "12 ns", "0".
std::string human_time(double ns);
/// "4.0 KB", "102 MB".
std::string human_bytes(double bytes);
/// "23.6 MB/s", from 10^9 bytes a second.
std::string human_rate(double gbps);

/// Appends `text` and a line end, broken into lines of about 96 characters. All lines but the first
/// are indented.
void wrap(std::string& out, const std::string& text, std::size_t indent);

/// "step" or "window" (of time): the unit of the analysis.
std::string_view unit_of(const Analysis& analysis) noexcept;

/// "40 steps", "40 windows of time".
std::string units_text(const Analysis& analysis);

/// A tensor's operations on all ranks.
struct TensorRow {
  std::string name;
  TensorCost cost;
};

/// The `most` tensors with the longest execution and negotiation.
std::vector<TensorRow> costliest_tensors(const JobTrace& job, std::size_t most);

/// The `most` bundles with the longest moving time.
std::vector<const Bundle*> costliest_bundles(const Analysis& analysis, std::size_t most);

/// "allreduce.w and 29 more".
std::string name_of(const Bundle& bundle, const JobTrace& job);

/// A step to show, and the reason: the slowest, the one that waits most, ...
struct ChosenStep {
  std::size_t index = 0;
  std::string why;
};
std::vector<ChosenStep> chosen_steps(const Analysis& analysis);

}  // namespace ronde::report
