// How long the host of a peer has not acknowledged what was written to a connection.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "backends/net/link/tcp_progress.h"
#include "core/base/clock.h"

namespace ronde::net {

/// A connection is silent after that time: hosts acknowledge at once, also those that compute.
inline constexpr std::chrono::seconds kSilentAfter{1};

/// Asks the kernel about one TCP connection. A peer that does not read, while its host says so, is
/// not silent. Threads: one.
class SilenceClock {
 public:
  /// The silence until `time`, as far as looks have seen it.
  Duration look(int fd, TimePoint time) noexcept {
    const TcpProgress is = tcp_progress(fd);
    waiting_ = is.waiting;
    if (shows_life(std::exchange(last_, is), is) || !since_) since_ = time;
    return time - *since_;
  }
  /// True if something was not acknowledged at the last look.
  [[nodiscard]] bool waiting() const noexcept { return waiting_; }

 private:
  TcpProgress last_;
  std::optional<TimePoint> since_;
  bool waiting_ = false;
};

}  // namespace ronde::net
