// Averages of an analysis: what one step of one rank looks like.
#pragma once

#include <array>
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
  double no_core_ns = 0;  ///< Ready to run without a core; part of the phases.

  [[nodiscard]] double of(Phase phase) const noexcept {
    return phase_ns[static_cast<std::size_t>(phase)];
  }
  [[nodiscard]] double share(Phase phase) const noexcept {
    return step_ns > 0 ? of(phase) / step_ns : 0;
  }
};

/// Over all ranks, or those of one (an index of JobTrace::ranks).
Means means_of(const Analysis& analysis, std::optional<std::size_t> rank = {});

/// The middle step's duration.
double median_step_ns(const Analysis& analysis);

/// "compute", "waiting for ranks", ...
std::string_view name_of(Phase phase) noexcept;

/// How steps were told where nobody marked them; empty where they were marked.
std::string steps_note(const Analysis& analysis);

/// The slowest rank's copying of memory as recording ended, in GB/s; 0 where no trace tells.
double memory_gbps(const JobTrace& job);

/// What bandwidths can be held against, in a sentence.
std::string bandwidth_note(const JobTrace& job);

/// "41.2 ms", "1.21 s", "87 us".
std::string human_time(double ns);
/// "4.0 KB", "102 MB".
std::string human_bytes(double bytes);
/// "23.6 MB/s", of 10^9 bytes a second.
std::string human_rate(double gbps);

/// "step" or "window" (of time), as the analysis went.
std::string_view unit_of(const Analysis& analysis) noexcept;

/// "40 steps", "40 windows of time".
std::string units_text(const Analysis& analysis);

}  // namespace ronde::report
