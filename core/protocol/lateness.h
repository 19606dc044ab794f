// When an operation that waits is late, and when that is reported again.
#pragma once

#include <algorithm>

#include "core/base/clock.h"

namespace ronde {

/// How long operations may wait; zero: for ever.
struct StallLimits {
  Duration warning{0};  ///< They are reported then, and each time that it passes again.
  Duration error{0};    ///< They fail then.

  [[nodiscard]] bool warns() const noexcept { return warning > Duration::zero(); }
  [[nodiscard]] bool fails() const noexcept { return error > Duration::zero(); }
};

/// How long one operation has waited, and what was reported of that. Threads: one at a time.
struct Lateness {
  TimePoint since;                        ///< It waits since then.
  TimePoint reported = TimePoint::min();  ///< When last.
  bool given_up = false;                  ///< The last report said that it should fail.

  /// True if it has waited for longer than is allowed.
  [[nodiscard]] bool is_fatal(const StallLimits& limits, TimePoint now) const noexcept {
    return limits.fails() && since + limits.error <= now;
  }
  /// When the next report is due; kForever without limits.
  [[nodiscard]] TimePoint due(const StallLimits& limits) const noexcept {
    TimePoint due = kForever;
    if (limits.warns()) due = std::max(since, reported) + limits.warning;
    if (limits.fails() && !given_up) due = std::min(due, since + limits.error);
    return due;
  }
  /// It is reported at `now`. Returns is_fatal().
  bool report(const StallLimits& limits, TimePoint now) noexcept {
    reported = now;
    given_up = is_fatal(limits, now);
    return given_up;
  }
};

}  // namespace ronde
