// When, by the host's clock, a device reached what it was given. A device tells only how long it is
// from one point of its work to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ronde {

/// Lays a device's time on the host's: a point is reached after it was queued and before it is seen
/// to be, so the host is ahead by at least the largest difference there was lately: by as much,
/// where one of the points was queued on a stream that was idle.
/// Threads: one.
class DeviceClock {
 public:
  /// A point at `device_ns`, queued at `queued_ns` and seen to be reached by `seen_ns`.
  void take(std::int64_t device_ns, std::int64_t queued_ns, std::int64_t seen_ns);
  /// The host's time of a point; one was taken before.
  [[nodiscard]] std::int64_t host_ns(std::int64_t device_ns) const;
  /// Forgets all points: the device's time begins anew.
  void clear() noexcept { bounds_.clear(); }

 private:
  /// Between which the host's time less the device's lies, by one point.
  struct Bounds {
    std::int64_t device_ns = 0;
    std::int64_t least_ns = 0;
    std::int64_t most_ns = 0;
  };
  std::deque<Bounds> bounds_;  // of the last points: the clocks drift apart
};

}  // namespace ronde
