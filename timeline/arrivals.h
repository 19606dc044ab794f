// Marks on the first rank's lanes: when each other rank submitted the operation.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "timeline/report/event_parser.h"
#include "timeline/trace_output.h"

namespace ronde {

/// Whether a merge added the event. Such events belong to no rank's recording.
bool is_arrival(const report::TraceEvent& event) noexcept;

/// Adds a mark "rank 3 ready" to the first rank's lane of an operation when rank 3 submits it, as
/// Horovod's timeline does. Skips lanes that the first rank lacks. Threads: one. Memory: the name
/// of each lane of a rank.
class Arrivals {
 public:
  /// Takes the next event of the traces, one rank after the other. Adds a mark to `output` if due.
  void take(const report::TraceEvent& event, std::int64_t time_ns, TraceOutput& output);

 private:
  void name_lane(const report::TraceEvent& event);

  std::int64_t first_ = -1;    ///< The first rank; -1 before any lane was named.
  std::int64_t current_ = -1;  ///< The rank of `lanes_`.
  std::unordered_map<std::string, std::int64_t> first_lanes_;  ///< Their numbers, by name.
  std::unordered_map<std::int64_t, std::int64_t> lanes_;  ///< The first rank's number of each lane.
  std::string text_;                                      ///< Reused, like name_.
  std::string name_;
};

}  // namespace ronde
