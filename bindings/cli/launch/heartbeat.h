// Signs of life between the launcher of an elastic job and its agents.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"

namespace ronde {

/// One side of a connection: when to send a sign of life, and if the other side has been silent for
/// too long, as it is when the network between hosts is cut. Threads: one.
class Heartbeat {
 public:
  static constexpr std::chrono::seconds kInterval{2};
  static constexpr std::chrono::seconds kLimit{10};  ///< Of silence; as for links between ranks.

  /// The connection is there.
  void start(TimePoint time) noexcept { next_ = last_ = heard_ = time; }
  /// Something came from the other side; or this side does not read at present.
  void on_heard(TimePoint time) noexcept { heard_ = time; }
  /// True if a sign of life is to be sent now. Call it at deadline().
  bool due(TimePoint time) noexcept {
    if (time < deadline()) return false;
    if (time - last_ > 2 * kInterval) heard_ = time;  // this process itself has not run
    last_ = time;
    next_ = time + kInterval;
    return true;
  }
  /// True if the other side is gone.
  [[nodiscard]] bool silent(TimePoint time) const noexcept {
    return heard_ != kForever && time - heard_ >= kLimit;
  }
  [[nodiscard]] TimePoint deadline() const noexcept { return next_; }

 private:
  TimePoint next_ = kForever;
  TimePoint last_ = kForever;
  TimePoint heard_ = kForever;
};

}  // namespace ronde
