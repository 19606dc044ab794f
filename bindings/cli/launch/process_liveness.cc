#include "bindings/cli/launch/process_liveness.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace ronde {
namespace {

constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel's include/linux/sched.h

/// Fields of /proc/PID/stat, numbered from 1 as in proc(5).
struct Stat {
  std::string state;   // field 3
  unsigned flags = 0;  // field 9
  int exit_code = 0;   // field 52; 0 where this process may not know it
  bool complete = false;
};

Stat read_stat(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  Stat stat;
  const std::size_t name_end = text.rfind(')');  // "17 (name) S ...", names may have any byte
  if (name_end == std::string::npos) return stat;
  std::istringstream rest(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 3) stat.state = field;
    if (number == 9) stat.flags = static_cast<unsigned>(std::stoul(field));
    if (number == 52) stat.exit_code = std::stoi(field);
    stat.complete = number >= 52;
  }
  return stat;
}

bool is_exiting(const Stat& stat) { return stat.complete && (stat.flags & kExiting) != 0; }

}  // namespace

bool is_stopped(pid_t pid) {
  const std::string state = read_stat(fmt::format("/proc/{}/stat", pid)).state;
  return state == "T" || state == "t";
}

std::optional<int> status_of_ending(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  const Stat process = read_stat(folder + "/stat");
  if (!is_exiting(process) || process.exit_code == 0) return std::nullopt;
  std::error_code error;
  std::filesystem::directory_iterator thread(folder + "/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const Stat stat = read_stat(thread->path().string() + "/stat");
    if (stat.complete && !is_exiting(stat)) return std::nullopt;  // it may have ended meanwhile
  }
  return process.exit_code;
}

std::vector<pid_t> ProcessLiveness::frozen(const std::vector<pid_t>& running, TimePoint time) {
  if (freeze_limit_.count() == 0 || time < next_look_) return {};
  next_look_ = time + kFreezeInterval;
  std::map<pid_t, TimePoint> stopped;
  std::vector<pid_t> found;
  for (const pid_t pid : running) {
    if (!is_stopped(pid)) continue;
    const auto known = stopped_.find(pid);
    TimePoint since = known == stopped_.end() ? time : known->second;
    if (since != kForever && time - since >= freeze_limit_) {
      found.push_back(pid);
      since = kForever;
    }
    stopped.emplace(pid, since);
  }
  stopped_ = std::move(stopped);
  return found;
}

std::vector<std::pair<pid_t, int>> ProcessLiveness::gone(TimePoint time) {
  std::vector<std::pair<pid_t, int>> found;
  for (auto suspect = suspects_.begin(); suspect != suspects_.end();) {
    const auto status = status_of_ending(suspect->first);
    if (status) found.emplace_back(suspect->first, *status);
    suspect = status || time >= suspect->second ? suspects_.erase(suspect) : std::next(suspect);
  }
  return found;
}

}  // namespace ronde
