// Times in which the connection with a rank of another host did not work.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/ports/connection_counts.h"

namespace ronde::net {

/// For messages.
inline double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

struct LinkOutage {
  TimePoint began;
  TimePoint ended = {};
  std::string reason = {};  ///< Completes "its connection ...".
  bool corrupted = false;   ///< A checksum was wrong.
};

/// The outages of one connection, one after another. Threads: one at a time.
class OutageLog {
 public:
  void begin(LinkOutage outage) { lasting_ = std::move(outage); }
  /// Ends the outage that lasts, if one does.
  void end(TimePoint time) {
    if (!lasting_) return;
    lasting_->ended = time;
    ended_.push_back(*std::exchange(lasting_, std::nullopt));
  }
  /// Forgets the outage that lasts, if one does.
  void drop() noexcept { lasting_.reset(); }
  [[nodiscard]] const std::optional<LinkOutage>& lasting() const noexcept { return lasting_; }
  [[nodiscard]] bool has_ended() const noexcept { return !ended_.empty(); }
  /// Those that have ended, once.
  std::vector<LinkOutage> take_ended() { return std::exchange(ended_, {}); }

 private:
  std::optional<LinkOutage> lasting_;
  std::vector<LinkOutage> ended_;
};

/// True for the error of a connection that another one may replace.
constexpr bool is_outage(Code code) noexcept {
  return code == Code::kUnavailable || code == Code::kTimeout || code == Code::kCorrupted;
}

/// Warns of an outage that has ended, counts it and tells the observers. `what` names the
/// connection, which is one with `rank` of the job.
inline void report_outage(const LinkOutage& outage, const std::string& what, int rank,
                          const ConnectionObservers& observers) {
  const Duration lasted = outage.ended - outage.began;
  log(LogLevel::kWarning, "{} {}; it works again after {:.2f} s", what, outage.reason,
      seconds(lasted));
  if (observers.counts) {
    observers.counts->healed.fetch_add(1);
    observers.counts->corrupted.fetch_add(outage.corrupted ? 1 : 0);
    observers.counts->outage_ns.fetch_add(static_cast<std::uint64_t>(to_ns(lasted)));
  }
  if (observers.on_healed) {
    observers.on_healed(rank, {to_ns(outage.began), to_ns(outage.ended)});
  }
}

}  // namespace ronde::net
