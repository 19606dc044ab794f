// The times of a device's work, for the timeline: events in its stream around the phases of a
// bundle, reported once they are reached. Nothing waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/device_ops.h"
#include "core/ports/event_sink.h"

namespace ronde {

/// Maps a device's time to the host's. An event is reached after it was queued and before it is
/// seen. So the host is ahead by at least the largest recent difference, and by just that if one of
/// the events was queued on an idle stream. Threads: one.
class DeviceClock {
 public:
  /// A point at `device_ns`, queued at `queued_ns` and seen to be reached by `seen_ns`.
  void take(std::int64_t device_ns, std::int64_t queued_ns, std::int64_t seen_ns);
  /// The host's time of a point; one was taken before.
  [[nodiscard]] std::int64_t host_ns(std::int64_t device_ns) const;
  /// Forgets all points: the device's time begins anew.
  void clear() noexcept { bounds_.clear(); }

 private:
  /// Bounds of the host's time less the device's, by one event.
  struct Bounds {
    std::int64_t device_ns = 0;
    std::int64_t least_ns = 0;
    std::int64_t most_ns = 0;
  };
  std::deque<Bounds> bounds_;  // of the last points: the clocks drift apart
};

/// The track of one process set's stream. Work whose events fail, or come
/// faster than they are reported, is left out. Threads: one.
class DeviceTimes {
 public:
  /// `track`: no tensor's, as it has no dot.
  DeviceTimes(std::shared_ptr<DeviceOps> device, std::string track);

  /// The stream's work for `bundle` begins here.
  void begin(DeviceStream stream, std::uint64_t bundle);
  /// Names the work that the stream was given since the last event.
  void end_phase(DeviceStream stream, std::string_view phase);
  /// Reports the bundles that have ended.
  void report(EventSink& events);
  /// Drops what was begun so far.
  void forget() noexcept {
    runs_.clear();
    open_ = false;
  }

 private:
  /// An event, and the phase that ends there.
  struct Mark {
    std::string phase = {};
    DeviceEventPtr event = {};
    std::int64_t queued_ns = 0;
  };
  struct Run {
    std::uint64_t bundle = 0;
    Mark anchor = {};  // reached as soon as it is queued: what the marks are measured from
    std::vector<Mark> marks = {};
  };
  [[nodiscard]] bool renew_anchor();
  void add_mark(DeviceStream stream, std::string_view phase);
  [[nodiscard]] static bool has_ended(const Run& run);
  [[nodiscard]] bool read(const Run& run, std::vector<std::int64_t>& device_ns);
  void report_run(const Run& run, EventSink& events);

  const std::shared_ptr<DeviceOps> device_;
  const std::string track_;
  std::deque<Run> runs_;
  bool open_ = false;  // the last run takes further phases
  DeviceClock clock_;
  DeviceStream idle_ = nullptr;      // for anchors alone
  Mark anchor_;                      // the newest
  DeviceEventPtr last_anchor_;       // that was read
  std::int64_t last_anchor_ns_ = 0;  // by the device's clock
  std::int64_t reported_ns_ = 0;     // until when, by the host's clock
};

}  // namespace ronde
