// Builds operations, waits, marks and steps from the events of one rank.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "timeline/reading/event_parser.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// Loads one rank's events. Threads: one.
class RankLoader {
 public:
  /// Adds to `rank`, and to `job`'s names, paths and tensors. Both must outlive it.
  RankLoader(JobTrace& job, RankTrace& rank) : job_(job), rank_(rank) {}

  /// Takes the next event. Events of a track are in time order.
  void take(const TraceEvent& event);
  /// Notes unfinished operations.
  void finish();

 private:
  enum class TrackKind {
    kTensor,
    kMarks,
    kPasses,
    kWaits,
    kTransitions,
    kOutages,
    kMessages,
    kOther
  };

  struct Track {
    TrackKind kind = TrackKind::kTensor;
    std::uint32_t name = 0;
    std::uint64_t runs = 0;
    std::int64_t submit_ns = 0;  ///< 0: before the trace.
    std::int64_t agreed_ns = 0;
    std::int64_t counted_submit_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t running = 0;  ///< Its bundle, or 0.
    int open_runs = 0;          ///< Several tensors of a group share one track.
    std::int64_t run_start_ns = 0;
    bool barrier = false;
    MessageSpan message;          ///< The open one.
    std::vector<NamedSpan> open;  ///< Open marks and waits.
  };

  struct OpenBundle {
    OperationSpan span;
    std::uint32_t begun = 0;
  };

  void name_track(const TraceEvent& event);
  void take_counter(const TraceEvent& event);
  void take_span(Track& track, const TraceEvent& event);
  void take_message(Track& track, const TraceEvent& event);
  void take_tensor(Track& track, const TraceEvent& event);
  void begin_run(Track& track, const TraceEvent& event);
  void end_run(Track& track, const TraceEvent& event);
  void end_negotiation(Track& track, const TraceEvent& event);
  [[nodiscard]] std::uint64_t own_key(const Track& track) const;
  void add_cost(Track& track, std::int64_t end_ns);
  void note_open(const Track& track);
  void forget_open();
  void end_epoch();
  std::vector<NamedSpan>& spans_of(TrackKind kind);
  void begin_pause(std::int64_t time_ns);
  void end_pause(std::int64_t time_ns);

  JobTrace& job_;
  RankTrace& rank_;
  bool paused_ = false;
  std::unordered_map<std::int64_t, Track> tracks_;
  std::unordered_map<std::uint64_t, OpenBundle> bundles_;
};

}  // namespace ronde::report
