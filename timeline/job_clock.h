// One clock for the traces of a job: exact inside a host, by comparisons of clocks between hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/clock_sync.h"
#include "timeline/recording.h"

namespace ronde {

/// What a trace says of clocks.
struct TraceClock {
  RecordingInfo info;
  std::vector<ClockSample> samples;
};

/// Recordings of one boot of one host share its steady clock. Where a host was compared with
/// another its clock follows that one's: of every stretch of a few seconds the fastest message of
/// either way counts, and between these stretches the offset changes evenly, which takes drift out.
/// Hosts that nobody compared are put in place by their wall clocks. Threads: any.
class JobClock {
 public:
  explicit JobClock(const std::vector<TraceClock>& traces);

  /// Nanoseconds from the earliest recording's start to what trace `trace` calls `ns`.
  [[nodiscard]] std::int64_t time_of(std::size_t trace, std::int64_t ns) const;
  /// By how much the clock of any host may be off against the one it follows, while it was
  /// compared: what the messages allow, and what the drift may have done between those that count.
  /// 0 where no host was compared.
  [[nodiscard]] std::int64_t error_ns() const noexcept { return error_ns_; }

 private:
  struct Knot {
    std::int64_t local_ns;
    std::int64_t offset_ns;
    std::int64_t error_ns;
    std::int64_t end_ns;  ///< Of the stretch that it stands for.
  };
  struct Host {
    std::vector<ClockSample> samples;
    std::vector<Knot> knots;      ///< Empty where the host was compared with none.
    std::int64_t to_wall_ns = 0;  ///< From its steady clock, or from that of the one it follows.
  };
  struct Trace {
    const Host* host = nullptr;  ///< Null where the trace has only a wall clock.
    std::int64_t start_ns = 0;   ///< Steady clock, or wall clock.
  };

  void collect(const std::vector<TraceClock>& traces);
  void follow(const std::string& boot, Host& host);
  static std::vector<Knot> knots_of(std::vector<ClockSample>& samples);
  static std::vector<Knot> refined(const std::vector<Knot>& knots,
                                   const std::vector<ClockSample>& samples);
  static double reach_of(const std::vector<Knot>& knots, std::size_t at,
                         const std::vector<ClockSample>& samples);
  static std::int64_t error_of(const std::vector<Knot>& knots,
                               const std::vector<ClockSample>& samples);
  static std::int64_t offset_at(const std::vector<Knot>& knots, std::int64_t local_ns);
  [[nodiscard]] std::int64_t wall_of(std::size_t trace, std::int64_t ns) const;

  std::map<std::string, Host> hosts_;  ///< By boot id.
  std::vector<Trace> traces_;
  std::int64_t first_ns_ = 0;
  std::int64_t error_ns_ = 0;
};

/// The traces by rank, and the parts of each rank's in their order.
std::vector<std::size_t> reading_order(const std::vector<TraceClock>& traces);
/// Whether `next` is a later part of the recording that `info` is of.
bool goes_on(const RecordingInfo& info, const RecordingInfo& next);

/// Reads the comparisons of clocks in `paths`, the traces that `traces` are of, where they come
/// from several hosts. Errors: as TraceReader's.
Status read_clock_samples(const std::vector<std::string>& paths, std::vector<TraceClock>& traces);

}  // namespace ronde
