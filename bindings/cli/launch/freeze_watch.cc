#include "bindings/cli/launch/freeze_watch.h"

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <utility>

namespace ronde {

bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(')');  // "17 (name) T ...", where names may have any byte
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  return stat[name_end + 2] == 'T' || stat[name_end + 2] == 't';
}

std::vector<pid_t> FreezeWatch::due(const std::vector<pid_t>& running, TimePoint time) {
  if (time < deadline()) return {};
  next_ = time + kInterval;
  std::map<pid_t, TimePoint> stopped;
  std::vector<pid_t> found;
  for (const pid_t pid : running) {
    if (!is_stopped(pid)) continue;
    const auto known = since_.find(pid);
    TimePoint since = known == since_.end() ? time : known->second;
    if (since != kForever && time - since >= limit_) {
      found.push_back(pid);
      since = kForever;
    }
    stopped.emplace(pid, since);
  }
  since_ = std::move(stopped);
  return found;
}

}  // namespace ronde
