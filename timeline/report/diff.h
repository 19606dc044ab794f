// Comparison of two runs: what became slower, and if that exceeds noise.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/analysis.h"

namespace ronde::report {

/// One part of a step in both runs: medians over steps of the mean over ranks, in nanoseconds.
struct Difference {
  std::string what;
  double before_ns = 0;
  double after_ns = 0;
  double p = 1;  ///< Chance of such a difference between equal runs.

  /// True if it exceeds chance and 1 % of a step of the first run.
  [[nodiscard]] bool counts(double step_ns) const noexcept;
};

/// A tensor's mean operation in both runs.
struct TensorChange {
  std::string name;
  double before_ns = 0;
  double after_ns = 0;
};

struct Diff {
  Difference step;
  std::vector<Difference> parts;      ///< In the order of Phase.
  std::vector<TensorChange> tensors;  ///< Tensors of both runs; the largest change first.
  std::string cause;             ///< The rank and mark that changed most; empty if none did much.
  std::size_t steps_before = 0;  ///< Without those that warm up.
  std::size_t steps_after = 0;
  std::vector<std::string> notes;  ///< Other differences of the runs, such as ranks or hosts.
};

/// A run, loaded and analysed.
struct Run {
  const JobTrace& job;
  const Analysis& analysis;
};

Diff compare(const Run& before, const Run& after);

/// The comparison as sentences and tables.
std::string text_of(const Diff& diff);

}  // namespace ronde::report
