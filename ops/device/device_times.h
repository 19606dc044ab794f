// What a device did when, for the timeline: points in its stream around the parts of a bundle, told
// once they are reached. Nothing waits for them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/device_ops.h"
#include "core/ports/event_sink.h"
#include "ops/device/device_clock.h"

namespace ronde {

/// The track of one process set's stream. Work whose points cannot be had, or come faster than they
/// are told, is left out. Threads: one.
class DeviceTimes {
 public:
  /// `track`: no tensor's, as it has no dot.
  DeviceTimes(std::shared_ptr<DeviceOps> device, std::string track);

  /// The stream's work for `bundle` begins here.
  void begin(DeviceStream stream, std::uint64_t bundle);
  /// What it was given since the last point is called `part`.
  void end_part(DeviceStream stream, std::string_view part);
  /// Tells of the bundles that have ended by now.
  void tell(EventSink& events);
  /// Tells of nothing that was begun so far.
  void forget() noexcept {
    runs_.clear();
    open_ = false;
  }

 private:
  /// A point, and what ends there.
  struct Mark {
    std::string part = {};
    DeviceEventPtr event = {};
    std::int64_t queued_ns = 0;
  };
  struct Run {
    std::uint64_t bundle = 0;
    Mark anchor = {};  // reached as soon as it is queued: what the marks are measured from
    std::vector<Mark> marks = {};
  };
  [[nodiscard]] bool renew_anchor();
  void add_mark(DeviceStream stream, std::string_view part);
  [[nodiscard]] static bool has_ended(const Run& run);
  [[nodiscard]] bool read(const Run& run, std::vector<std::int64_t>& device_ns);
  void tell_run(const Run& run, EventSink& events);

  const std::shared_ptr<DeviceOps> device_;
  const std::string track_;
  std::deque<Run> runs_;
  bool open_ = false;  // the last of them takes further parts
  DeviceClock clock_;
  DeviceStream idle_ = nullptr;      // has nothing to do but anchors
  Mark anchor_;                      // the newest
  DeviceEventPtr last_anchor_;       // that was read
  std::int64_t last_anchor_ns_ = 0;  // by the device's clock
  std::int64_t told_ns_ = 0;         // until when, by the host's clock
};

}  // namespace ronde
