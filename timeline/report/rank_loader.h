// Turns the events of one rank into operations, waits, marks and steps.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "timeline/report/event_parser.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// Threads: one.
class RankLoader {
 public:
  /// Adds to `rank` and to the names and tensors of `job`, which outlive it.
  RankLoader(JobTrace& job, RankTrace& rank) : job_(job), rank_(rank) {}

  /// Takes one event; they come in the order in which they happened, lane by lane.
  void take(const TraceEvent& event);
  /// Notes what had not ended.
  void finish();

 private:
  enum class LaneKind { kTensor, kMarks, kPasses, kWaits, kOther };

  struct Lane {
    LaneKind kind = LaneKind::kTensor;
    std::uint32_t name = 0;
    std::uint64_t runs = 0;
    std::int64_t submit_ns = 0;  ///< 0: before the trace began.
    std::int64_t agreed_ns = 0;
    std::int64_t counted_submit_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t running = 0;  ///< The bundle it is part of, or 0.
    int open_runs = 0;          ///< A group's tensors share one lane.
    std::int64_t run_start_ns = 0;
    bool barrier = false;
    std::vector<NamedSpan> open;  ///< Marks and waits.
  };

  struct OpenBundle {
    OperationSpan span;
    std::uint32_t begun = 0;
  };

  void name_lane(const TraceEvent& event);
  void take_counter(const TraceEvent& event);
  void take_span(Lane& lane, const TraceEvent& event);
  void take_tensor(Lane& lane, const TraceEvent& event);
  void begin_run(Lane& lane, const TraceEvent& event);
  void end_run(Lane& lane, const TraceEvent& event);
  void end_negotiation(Lane& lane, const TraceEvent& event);
  [[nodiscard]] std::uint64_t own_key(const Lane& lane) const;
  void add_cost(Lane& lane, std::int64_t end_ns);
  void note_open(const Lane& lane);
  void forget_open();
  void begin_pause(std::int64_t time_ns);
  void end_pause(std::int64_t time_ns);

  JobTrace& job_;
  RankTrace& rank_;
  bool paused_ = false;
  std::unordered_map<std::int64_t, Lane> lanes_;
  std::unordered_map<std::uint64_t, OpenBundle> bundles_;
};

}  // namespace ronde::report
