// Events that a merge adds: arrows from submissions to bundles, marks of other ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "timeline/reading/event_parser.h"

namespace ronde {

class TraceOutput;

/// The name of arrows in Chrome's format.
inline constexpr std::string_view kFlowName = "bundle";

/// True if a merge added the event.
bool is_flow(const report::TraceEvent& event) noexcept;

/// Joins the last submission of a bundle, over all ranks and tensors, to its start on each other
/// rank. Reads all traces twice, rank after rank: the first reading finds the last submission.
/// Each arrow that leaves arrives later; arrows that would go back in time, due to inexact clocks,
/// are left out. Threads: one. Memory: about 200 bytes for each bundle, 16 more for each rank.
class Flows {
 public:
  /// The next events are of this recording. In both readings.
  void begin_recording(std::int64_t row, int epoch);
  /// First reading: takes one event.
  void survey(const report::TraceEvent& event, std::int64_t time_ns);
  /// Ends the first reading.
  void end_survey();

  /// Second reading: the numbers of the arrows that begin at the event. Valid until the next call.
  const std::vector<std::uint64_t>& leaving(const report::TraceEvent& event, std::int64_t time_ns);
  /// Second reading: the number of the arrow that ends at the event, if any.
  std::optional<std::uint64_t> arriving(const report::TraceEvent& event, std::int64_t time_ns);

 private:
  /// The place of a tensor's submission. Later places compare greater.
  struct Place {
    std::int64_t time_ns;
    std::int64_t rank;
    std::int64_t track;
    // NOLINTNEXTLINE(modernize-use-nullptr): what the operator expands to
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  /// A rank's first start of a bundle.
  struct Start {
    std::int64_t rank;
    std::int64_t time_ns;
  };
  struct Bundle {
    std::optional<Place> last;  ///< The last submission of its tensors; none if the traces lack it.
    std::int64_t rank = -1;     ///< The rank met last in this reading: ranks have several tensors.
    std::vector<Start> starts;  ///< Of each rank. In the first reading only.
    std::uint64_t next_arrow = 0;

    /// True if an arrow leads from the last submission to a rank's start.
    [[nodiscard]] bool leads_to(const Start& start) const {
      return last && start.rank != last->rank && start.time_ns > last->time_ns;
    }
  };
  /// Consecutive numbers of arrows.
  struct ArrowRow {
    std::uint64_t first;
    std::uint64_t count;
  };

  using Bundles = std::unordered_map<std::uint64_t, Bundle>;

  std::map<int, Bundles> epochs_;  ///< Bundles have numbers of their own in each.
  Bundles* bundles_ = &epochs_[0];
  int epoch_ = 0;
  std::int64_t rank_ = -1;                                    ///< The row of `submitted_`.
  std::unordered_map<std::int64_t, std::int64_t> submitted_;  ///< Latest time, by track.
  std::multimap<Place, ArrowRow> by_submission_;
  std::vector<std::uint64_t> leaving_;  ///< Reused.
};

/// True if a merge added the event. Such events belong to no rank's recording.
bool is_arrival(const report::TraceEvent& event) noexcept;

/// Adds a mark "rank 3 ready" to the first rank's track of an operation when rank 3 submits it, as
/// Horovod's timeline does. Skips tracks that the first rank lacks. Threads: one. Memory: the name
/// of each track of a rank.
class Arrivals {
 public:
  /// The next events are of this recording.
  void begin_recording(std::int64_t row, int epoch);
  /// Takes the next event of the traces, one rank after the other. Adds a mark to `output` if due.
  void take(const report::TraceEvent& event, std::int64_t time_ns, TraceOutput& output);

 private:
  void name_track(const report::TraceEvent& event);

  /// The first rank of an epoch.
  struct First {
    std::int64_t row = -1;                                 ///< -1 before any track was named.
    std::unordered_map<std::string, std::int64_t> tracks;  ///< Their numbers, by name.
  };

  std::map<int, First> firsts_;  ///< By epoch.
  int epoch_ = 0;
  std::int64_t current_ = -1;  ///< The row of `tracks_`.
  std::unordered_map<std::int64_t, std::int64_t>
      tracks_;        ///< The first rank's number of each track.
  std::string text_;  ///< Reused, like name_.
  std::string name_;
};

}  // namespace ronde
