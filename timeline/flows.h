// Arrows between ranks: from the submission that a bundle waited for to where each rank starts it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "timeline/report/event_parser.h"

namespace ronde {

/// What arrows are called in Chrome's format.
inline constexpr std::string_view kFlowName = "bundle";

/// Whether a merge put the event there.
bool is_flow(const report::TraceEvent& event) noexcept;

/// An arrow, by where it begins.
struct Arrow {
  std::uint64_t number = 0;  ///< Each has its own.
  std::int64_t rank = 0;
  std::int64_t lane = 0;
  std::int64_t time_ns = 0;
};

/// Joins the last submission of a bundle's tensors, of all ranks', to the start of the bundle on
/// each other rank. Takes the events of all traces twice, both times rank after rank: only at the
/// end of the first reading it is known who was last. Threads: one. Memory: about 200 bytes for
/// each bundle.
class Flows {
 public:
  /// First reading.
  void survey(const report::TraceEvent& event, std::int64_t time_ns);
  /// The first reading is over.
  void end_survey();

  /// Second reading: the numbers of the arrows that begin at the event. They live until the next
  /// call.
  const std::vector<std::uint64_t>& leaving(const report::TraceEvent& event, std::int64_t time_ns);
  /// Second reading: the arrow that ends at the event, if one does. None goes back in time, which
  /// clocks that agree only so far would let it.
  std::optional<Arrow> arriving(const report::TraceEvent& event, std::int64_t time_ns);

 private:
  /// Where a tensor was submitted. The later is the greater.
  struct Place {
    std::int64_t time_ns;
    std::int64_t rank;
    std::int64_t lane;
    // NOLINTNEXTLINE(modernize-use-nullptr): what the operator expands to
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Bundle {
    std::optional<Place> last;  ///< Submission of its tensors, where one is in the traces.
    std::int64_t rank = -1;     ///< That was met last in this reading: each has several parts.
    std::uint64_t others = 0;   ///< Ranks that get an arrow; in the first reading the one more.
    std::uint64_t next_arrow = 0;
  };
  /// Numbers in a row.
  struct ArrowRow {
    std::uint64_t first;
    std::uint64_t count;
  };

  std::int64_t rank_ = -1;                                    ///< Whose lanes the next are.
  std::unordered_map<std::int64_t, std::int64_t> submitted_;  ///< Latest time, by lane.
  std::unordered_map<std::uint64_t, Bundle> bundles_;
  std::multimap<Place, ArrowRow> by_submission_;
  std::vector<std::uint64_t> leaving_;  ///< Reused.
};

}  // namespace ronde
