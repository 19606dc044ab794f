// When each rank came to an operation, shown where the first rank waits for it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "timeline/report/event_parser.h"
#include "timeline/trace_output.h"

namespace ronde {

/// Whether a merge put the event there: it is of no rank then.
bool is_arrival(const report::TraceEvent& event) noexcept;

/// Puts into the lanes of the first rank a mark "rank 3 ready" where rank 3 submits what the lane
/// is of, as Horovod's timeline has it. Lanes that the first rank has not are left out. Threads:
/// one. Memory: a name for each lane of a rank.
class Arrivals {
 public:
  /// Takes an event of the traces, which come one after the other, and adds its mark to `output`.
  void take(const report::TraceEvent& event, std::int64_t time_ns, TraceOutput& output);

 private:
  void name_lane(const report::TraceEvent& event);

  std::int64_t first_ = -1;    ///< The first rank; -1 before any lane was named.
  std::int64_t current_ = -1;  ///< Whose lanes `lanes_` are.
  std::unordered_map<std::string, std::int64_t> first_lanes_;  ///< Their numbers, by name.
  std::unordered_map<std::int64_t, std::int64_t> lanes_;  ///< The first rank's number of each lane.
  std::string text_;                                      ///< Reused, as the next.
  std::string name_;
};

}  // namespace ronde
