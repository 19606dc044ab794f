// A time in which the connection with a rank of another host did not work.
#pragma once

#include <string>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/connection_counts.h"

namespace ronde::net {

struct LinkOutage {
  TimePoint began;
  TimePoint ended;
  std::string reason;  ///< Completes "its connection ...".
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
