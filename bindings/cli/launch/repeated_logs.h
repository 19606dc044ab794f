// Lines of Ronde's log that all ranks write alike, such as warnings of a stall.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/clock.h"

namespace ronde {

/// Finds lines of the log that another rank has just written. Threads: one.
class RepeatedLogs {
 public:
  /// True if another rank wrote the same line, but for times, within the last seconds.
  bool repeats(int rank, std::string_view line, TimePoint time);

 private:
  struct Written {
    int rank = 0;
    TimePoint time{};
  };
  std::map<std::string, Written> written_;
};

}  // namespace ronde
