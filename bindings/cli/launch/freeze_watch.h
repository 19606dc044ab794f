// Finds processes that have been stopped: by SIGSTOP, or by a debugger.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <vector>

#include "core/base/clock.h"

namespace ronde {

/// True if the process has been stopped, and not killed since.
bool is_stopped(pid_t pid);

/// Looks at processes once a second. Threads: one.
class FreezeWatch {
 public:
  static constexpr std::chrono::seconds kInterval{1};

  /// Processes may be stopped for this long; 0: without end.
  void set_limit(std::chrono::seconds limit) noexcept { limit_ = limit; }
  [[nodiscard]] std::chrono::seconds limit() const noexcept { return limit_; }

  /// The processes, each once, that have been stopped for longer than the limit. Looks at `running`
  /// if it is time, which deadline() tells.
  std::vector<pid_t> due(const std::vector<pid_t>& running, TimePoint time);
  [[nodiscard]] TimePoint deadline() const noexcept {
    return limit_.count() == 0 ? kForever : next_;
  }

 private:
  std::chrono::seconds limit_{0};
  TimePoint next_{};
  std::map<pid_t, TimePoint> since_;  // kForever: reported
};

}  // namespace ronde
