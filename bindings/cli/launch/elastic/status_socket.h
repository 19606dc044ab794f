// The socket at which the launcher of an elastic job answers `ronde doctor --job`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bindings/cli/launch/elastic/job_history.h"
#include "bindings/cli/launch/poll_set.h"
#include "bindings/runtime/diagnosis/diagnostics_address.h"
#include "core/base/clock.h"

namespace ronde {

/// The name of the socket.
struct LauncherAddress {
  int pid = 0;
  std::string job;  ///< The beginning of its epochs' job ids.

  /// "ronde-elastic/PID/JOB".
  [[nodiscard]] std::string text() const;
  /// Reads text() back; nothing where it is another name.
  static std::optional<LauncherAddress> parse(std::string_view text);
  /// True if the job id is that of one of its epochs.
  [[nodiscard]] bool owns(std::string_view job_id) const;
};

/// Answers with the history's status. Without a socket it does nothing. Threads: one.
class StatusSocket {
 public:
  /// `history` outlives it.
  explicit StatusSocket(const JobHistory& history);

  void watch(PollSet& set) const;
  [[nodiscard]] TimePoint deadline() const;
  /// Serves clients. Blocks: never.
  void on_time(TimePoint time);

 private:
  const JobHistory& history_;
  std::optional<diagnosis::ReplySocket> socket_;
};

}  // namespace ronde
