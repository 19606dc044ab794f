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

#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace ronde {

/// One comparison of this host's steady clock with another's.
struct ClockSample {
  std::int64_t local_ns = 0;   ///< Time of the comparison by this host's clock.
  std::int64_t offset_ns = 0;  ///< Add to this host's clock to get the other's.
  std::int64_t error_ns = 0;   ///< Largest error of the offset: half of the round trip.
  std::string reference;       ///< Boot id of the other host.

  /// Calls `use(name, field)` for each field of a trace's line.
  static void fields(auto& self, auto use) {
    use("steady_ns", self.local_ns);
    use("offset_ns", self.offset_ns);
    use("error_ns", self.error_ns);
    use("reference", self.reference);
  }
};

/// Sends requests and answers. A request carries its sending time t1. The answer adds the request's
/// arrival t2 and its own sending time t3, and arrives at t4. The offset is ((t2 - t1) + (t3 - t4))
/// / 2, which assumes that both directions take equally long.
/// Source: D. Mills, RFC 5905, section 8. Threads: any.
class ClockSync {
 public:
  using Clock = std::function<std::int64_t()>;
  /// Sends rank `to` the message that `make` returns at the moment of sending.
  using Send = std::function<void(int to, std::function<std::vector<std::byte>()> make)>;

  /// `clock` returns this host's steady clock in nanoseconds.
  ClockSync(std::string boot_id, Clock clock);

  /// Compares with rank 0 every 200 ms from now on, as long as comparisons are taken.
  void start(Send send) RONDE_EXCLUDES(send_mutex_);
  /// `send` is not called after this returns.
  void stop() RONDE_EXCLUDES(send_mutex_);

  /// Builds a request that is sent now.
  [[nodiscard]] std::vector<std::byte> request() const;
  /// Handles a message of another rank. Returns the answer to a request. Ignores malformed
  /// messages.
  std::optional<std::vector<std::byte>> on_message(std::span<const std::byte> message)
      RONDE_EXCLUDES(mutex_);
  /// The comparisons since the last call. Requests the next one when it is due.
  std::vector<ClockSample> take() RONDE_EXCLUDES(send_mutex_, mutex_);

 private:
  const std::string boot_id_;
  const Clock clock_;
  Mutex send_mutex_;
  Send send_ RONDE_GUARDED_BY(send_mutex_);
  TimePoint next_ RONDE_GUARDED_BY(send_mutex_);
  Mutex mutex_;
  std::vector<ClockSample> samples_ RONDE_GUARDED_BY(mutex_);
};

/// The line of a trace that holds a comparison, after ",\n".
std::string format_clock_sample(int rank, const ClockSample& sample);
/// Reads that line. Returns nothing for any other event.
std::optional<ClockSample> parse_clock_sample(std::string_view event);

}  // namespace ronde
