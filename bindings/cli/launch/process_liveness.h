// Finds processes of this host that do not run on: stopped ones, and ones that have been killed.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace ronde {

/// True if the process has been stopped, by SIGSTOP or a debugger, and not killed since.
bool is_stopped(pid_t pid);
/// The wait status of a process none of whose threads will run its program again. Nothing for
/// others, and where the status is 0 or not known.
std::optional<int> status_of_ending(pid_t pid);

/// Says which of a job's processes are frozen or gone. Threads: one.
class ProcessLiveness {
 public:
  static constexpr std::chrono::seconds kFreezeInterval{1};
  static constexpr std::chrono::milliseconds kSuspectInterval{2};
  static constexpr std::chrono::milliseconds kSuspectTime{300};

  /// Processes may be stopped for this long; 0: without end.
  void set_freeze_limit(std::chrono::seconds limit) noexcept { freeze_limit_ = limit; }
  /// The processes, each once, that have been stopped for longer than the limit. Looks at `running`
  /// if it is time.
  std::vector<pid_t> frozen(const std::vector<pid_t>& running, TimePoint time);

  /// Others have lost this process. The kernel frees its memory for 0.1 s and more if it was killed
  /// with PyTorch; only then does its parent get to know of its end. It is looked at for a while.
  void suspect(pid_t pid, TimePoint time) { suspects_[pid] = time + kSuspectTime; }
  /// Suspects that are ending, each once, with their wait statuses.
  std::vector<std::pair<pid_t, int>> gone(TimePoint time);

  /// When to look again.
  [[nodiscard]] TimePoint deadline(TimePoint time) const noexcept {
    const TimePoint freeze = freeze_limit_.count() == 0 ? kForever : next_look_;
    return suspects_.empty() ? freeze : std::min(freeze, time + Duration(kSuspectInterval));
  }

 private:
  std::chrono::seconds freeze_limit_{0};
  TimePoint next_look_{};
  std::map<pid_t, TimePoint> stopped_;   // since then; kForever: reported
  std::map<pid_t, TimePoint> suspects_;  // until then
};

}  // namespace ronde
