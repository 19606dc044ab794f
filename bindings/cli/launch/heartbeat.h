// Signs of life between the launcher of an elastic job and its agents.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"

namespace ronde {

/// One side of a connection. Tells when to send a sign of life, and if the other side has been
/// silent for too long: the network may be cut. Threads: one.
class Heartbeat {
 public:
  static constexpr std::chrono::seconds kInterval{2};
  static constexpr std::chrono::seconds kLimit{10};  ///< Of silence; as for links between ranks.

  /// The connection is there.
  void start(TimePoint time) noexcept { next_ = last_ = received_ = time; }
  /// Something came from the other side; or this side does not read at present.
  void on_received(TimePoint time) noexcept { received_ = time; }
  /// True if a sign of life is to be sent now. Call it at deadline().
  bool due(TimePoint time) noexcept {
    if (time < deadline()) return false;
    if (time - last_ > 2 * kInterval) received_ = time;  // this process itself has not run
    last_ = time;
    next_ = time + kInterval;
    return true;
  }
  /// True if the other side is gone.
  [[nodiscard]] bool silent(TimePoint time) const noexcept {
    return received_ != kForever && time - received_ >= kLimit;
  }
  [[nodiscard]] TimePoint deadline() const noexcept { return next_; }

 private:
  TimePoint next_ = kForever;
  TimePoint last_ = kForever;
  TimePoint received_ = kForever;
};

}  // namespace ronde
