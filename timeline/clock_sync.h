// Compares the clocks of two hosts by small messages, as NTP does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"

namespace ronde {

/// One comparison of this host's steady clock with another's.
struct ClockSample {
  std::int64_t local_ns = 0;   ///< When, by this host's clock.
  std::int64_t offset_ns = 0;  ///< What to add to this host's clock to have the other's.
  std::int64_t error_ns = 0;   ///< The offset is off by this at most: half of the round trip.
  std::string reference;       ///< Boot id of the other host.
};

/// Asks and answers. A request carries the time at which it was sent (t1); the answer also when the
/// request came (t2) and when the answer was sent (t3); it comes at t4. The offset is
/// ((t2 - t1) + (t3 - t4)) / 2, as if both ways took equally long.
/// Source: D. Mills, RFC 5905, section 8. Threads: any.
class ClockSync {
 public:
  using Clock = std::function<std::int64_t()>;

  /// `clock` tells this host's steady clock in nanoseconds.
  ClockSync(std::string boot_id, Clock clock);

  /// A request, sent now.
  [[nodiscard]] std::vector<std::byte> request() const;
  /// Takes in what came from another rank; gives the answer where it was a request. What makes no
  /// sense is ignored.
  std::optional<std::vector<std::byte>> on_message(std::span<const std::byte> message)
      RONDE_EXCLUDES(mutex_);
  /// The comparisons since the last call.
  std::vector<ClockSample> take() RONDE_EXCLUDES(mutex_);

 private:
  const std::string boot_id_;
  const Clock clock_;
  Mutex mutex_;
  std::vector<ClockSample> samples_ RONDE_GUARDED_BY(mutex_);
};

/// The line of a trace that tells a comparison, after ",\n".
std::string format_clock_sample(int rank, const ClockSample& sample);
/// Reads it back; nothing where `event` is another.
std::optional<ClockSample> parse_clock_sample(std::string_view event);

}  // namespace ronde
