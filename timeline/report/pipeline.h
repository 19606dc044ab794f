// The stages of pipeline parallelism, found by the messages between ranks, and their idle time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// Ranks at one place of pipelines that are alike. Times are means per step and rank.
struct Stage {
  std::vector<std::size_t> ranks;  ///< Indices of JobTrace::ranks, one of each pipeline.
  double work_ns = 0;              ///< The step without idle time.
  double idle_ns = 0;              ///< Waiting for messages, or for ranks in a collective.
};

/// The bubble is the mean share of a step in which a stage is idle. The slowest stage is idle
/// least. Its idle share is the schedule's; the rest of the bubble arises as others work less.
struct Pipeline {
  std::vector<Stage> stages;  ///< As activations pass them. At least two.
  std::size_t slowest = 0;
  double step_ns = 0;
  /// Share of the steps in which the slowest stage is the one that is idle least.
  double slowest_steps = 0;

  [[nodiscard]] double bubble() const;
  [[nodiscard]] double schedule_share() const { return stages[slowest].idle_ns / step_ns; }
  [[nodiscard]] double uneven_share() const { return bubble() - schedule_share(); }
  /// True if the slowest stage costs noticeable time, in most of the steps.
  [[nodiscard]] bool names_slowest() const;
};

/// The pipelines of all ranks that have messages in most steps: in each step one rank of each sends
/// first, and the others only once they have received. Nothing if there are none.
std::optional<Pipeline> find_pipeline(const JobTrace& job, const Analysis& analysis);

/// The finding on the bubble; none if it is small.
std::optional<Finding> find_bubble(const Pipeline& pipeline, const JobTrace& job,
                                   const Analysis& analysis);

/// "stage 2 (rank 2)", "stage 1 (ranks 2, 3)".
std::string stage_label(const Pipeline& pipeline, std::size_t stage, const JobTrace& job);

}  // namespace ronde::report
