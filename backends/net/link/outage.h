// Times in which the connection with a rank of another host did not work.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/connection_counts.h"

namespace ronde::net {

struct LinkOutage {
  TimePoint began;
  TimePoint ended;
  std::string reason;  ///< Completes "its connection ...".
};

/// The outages of one connection, one after another. Threads: one at a time.
class OutageLog {
 public:
  void begin(TimePoint since, std::string reason) {
    lasting_ = LinkOutage{since, {}, std::move(reason)};
  }
  /// Ends the outage that lasts, if one does.
  void end(TimePoint time) {
    if (!lasting_) return;
    lasting_->ended = time;
    ended_.push_back(*std::exchange(lasting_, std::nullopt));
  }
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
  return code == Code::kUnavailable || code == Code::kTimeout;
}

/// Warns of an outage that has ended, counts it and tells the observers. `what` names the
/// connection, which is one with `rank` of the job.
void report_outage(const LinkOutage& outage, const std::string& what, int rank,
                   const ConnectionObservers& observers);

}  // namespace ronde::net
