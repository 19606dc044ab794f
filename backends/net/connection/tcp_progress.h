// The kernel's knowledge of the other end of a TCP connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/clock.h"

namespace ronde::net {

/// As it is now.
struct TcpProgress {
  bool waiting = false;                  ///< Something was written and is not acknowledged.
  std::uint64_t acknowledged_bytes = 0;  ///< Since the connection began.
  std::uint64_t full_us = 0;             ///< How long the peer's buffer has been full in all.
  unsigned lost_probes = 0;              ///< Probes of a full buffer in a row without an answer.
};

/// True if the peer's host has answered between two looks, or owes no answer. A frozen peer's host
/// acknowledges what fits its buffer, then reports the buffer as full.
constexpr bool shows_life(const TcpProgress& was, const TcpProgress& is) noexcept {
  constexpr unsigned kLostProbes = 2;
  const bool full = is.full_us != was.full_us && is.lost_probes <= kLostProbes;
  return !is.waiting || is.acknowledged_bytes != was.acknowledged_bytes || full;
}

/// Zeros where `fd` is no TCP connection.
TcpProgress tcp_progress(int fd) noexcept;

// How long the host of a peer has not acknowledged what was written to a connection.

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
