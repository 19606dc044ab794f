// One clock for the traces of a job: exact inside a host, by comparisons of clocks between hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/recording/clock_sync.h"
#include "timeline/recording/trace_head.h"

namespace ronde {

/// The facts of a trace about its clocks.
struct TraceClock {
  RecordingInfo info;
  std::vector<ClockSample> samples;
};

/// A host's clock against the one that it follows, in one stretch of time.
struct ClockKnot {
  std::int64_t local_ns;
  std::int64_t offset_ns;
  std::int64_t error_ns;
  std::int64_t end_ns;  ///< End of its stretch.
};

/// Puts the times of all traces on one clock. Recordings of one boot of a host share its steady
/// clock. A host that was compared with another follows that host's clock: in each stretch of a few
/// seconds the fastest message of either direction counts. Between stretches the offset changes
/// linearly, which removes drift. Hosts without comparisons are aligned by their wall clocks.
/// In an elastic job, whose rank 0 changes, a host may follow one that follows a third.
/// Threads: any.
class JobClock {
 public:
  explicit JobClock(const std::vector<TraceClock>& traces);

  /// Converts `ns` of trace `trace` to nanoseconds since the earliest recording's start.
  [[nodiscard]] std::int64_t time_of(std::size_t trace, std::int64_t ns) const;
  /// Largest possible error of a host's clock against the one it follows, while they were compared.
  /// Includes the messages' durations and the drift between them. 0 without comparisons.
  [[nodiscard]] std::int64_t error_ns() const noexcept { return error_ns_; }

 private:
  struct Host {
    std::vector<ClockSample> samples;
    std::vector<ClockKnot> knots;     ///< Empty without comparisons.
    const Host* reference = nullptr;  ///< The host that it follows, if that has a trace.
    std::int64_t to_wall_ns = 0;      ///< From its steady clock, or from the clock that it follows.
  };
  struct Trace {
    const Host* host = nullptr;  ///< Null if the trace has only a wall clock.
    std::int64_t start_ns = 0;   ///< Steady clock, or wall clock.
  };

  void collect(const std::vector<TraceClock>& traces);
  void choose_reference(const std::string& boot, Host& host);
  void follow(Host& host);
  [[nodiscard]] std::int64_t wall_of(std::size_t trace, std::int64_t ns) const;

  std::map<std::string, Host> hosts_;  ///< By boot id.
  std::vector<Trace> traces_;
  std::int64_t first_ns_ = 0;
  std::int64_t error_ns_ = 0;
};

/// Indices of the traces: the launcher's, then by rank or worker, epoch and part.
std::vector<std::size_t> reading_order(const std::vector<TraceClock>& traces);
/// True if `next` is a later part of the same recording as `info`.
bool goes_on(const RecordingInfo& info, const RecordingInfo& next);

/// Reads the comparisons of clocks from `paths`, the files of `traces`, if these have several
/// hosts. Errors: as TraceReader.
Status read_clock_samples(const std::vector<std::string>& paths, std::vector<TraceClock>& traces);

}  // namespace ronde
