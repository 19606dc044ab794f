// The clock by which a trace tells time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/base/clock.h"

namespace ronde {

/// Nanoseconds of the steady clock.
inline std::int64_t steady_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now().time_since_epoch()).count();
}

/// The steady clock as a trace tells it. Tests let ranks of one host have clocks of their own, as
/// those of several hosts do.
struct HostClock {
  std::string boot_id = {};    ///< Empty: this host's.
  std::int64_t offset_ns = 0;  ///< Ahead of the steady clock by this,
  double drift_ppm = 0;        ///< and, since the machine started, by so many millionths.

  /// What the clock shows when the steady clock shows `ns`.
  [[nodiscard]] std::int64_t of(std::int64_t ns) const noexcept {
    return ns + offset_ns + static_cast<std::int64_t>(static_cast<double>(ns) * drift_ppm / 1e6);
  }
};

}  // namespace ronde
