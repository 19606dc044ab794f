// Arrows between the ranks' parts of one operation, in Chrome's format.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "timeline/report/event_parser.h"

namespace ronde {

/// Whether a merge put the event there.
bool is_flow(const report::TraceEvent& event) noexcept;

/// Joins each rank's part of a bundle to the first rank's: an arrow from the one that starts
/// earlier to the other. Bundles that the first rank has not get none. Threads: one. Memory: where
/// each bundle is on the first rank.
class Flows {
 public:
  /// Takes an event of the traces, which come one after the other, and appends the two ends of its
  /// arrow, if it has one, as lines after ",\n".
  void take(const report::TraceEvent& event, std::int64_t time_ns, std::string& out);

 private:
  struct Place {
    std::int64_t lane = 0;
    std::int64_t time_ns = 0;
    std::int64_t joined = -1;  ///< Rank whose arrow was drawn last: each has several parts of it.
  };

  void append_end(std::string& out, char phase, std::int64_t rank, const Place& place) const;

  std::int64_t first_ = -1;   ///< The first rank; -1 before any bundle was seen.
  std::uint64_t arrows_ = 0;  ///< So far.
  std::unordered_map<std::uint64_t, Place> bundles_;
};

}  // namespace ronde
