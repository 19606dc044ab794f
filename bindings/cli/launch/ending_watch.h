// Finds processes that have been killed, while the kernel still frees their memory. That takes
// 0.1 s and more for a program with PyTorch; only then does their parent get to know of their end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace ronde {

/// The wait status of a process none of whose threads will run its program again. Nothing for
/// others, and where the status is 0 or not known.
std::optional<int> status_of_ending(pid_t pid);

/// Looks at processes that others have lost, for a short time. Threads: one.
class EndingWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{2};
  static constexpr std::chrono::milliseconds kLimit{300};

  void suspect(pid_t pid, TimePoint time) { suspects_[pid] = time + kLimit; }
  /// Those that are ending, each once, with their wait statuses.
  std::vector<std::pair<pid_t, int>> due(TimePoint time);
  [[nodiscard]] TimePoint deadline(TimePoint time) const noexcept {
    return suspects_.empty() ? kForever : time + Duration(kInterval);
  }

 private:
  std::map<pid_t, TimePoint> suspects_;  // until then
};

}  // namespace ronde
