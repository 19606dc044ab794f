// What became slower from one run to another, and whether that is more than noise.
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
  double p = 1;  ///< Chance of so large a difference between steps that are alike.

  /// More than chance has it, and more than 1 % of a step of the first run.
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
  std::vector<Difference> parts;      ///< Compute, waiting, ...; in the order of Phase.
  std::vector<TensorChange> tensors;  ///< In both runs; those that changed most first.
  std::size_t steps_before = 0;
  std::size_t steps_after = 0;
  std::vector<std::string> notes;  ///< What keeps the runs from being alike otherwise.
};

/// A run as it was read.
struct Run {
  const JobTrace& job;
  const Analysis& analysis;
};

Diff compare(const Run& before, const Run& after);

/// As sentences and tables.
std::string text_of(const Diff& diff);

}  // namespace ronde::report
