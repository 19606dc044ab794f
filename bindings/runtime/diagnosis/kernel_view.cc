#include "bindings/runtime/diagnosis/kernel_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "core/base/os/folders.h"

namespace ronde::diagnosis {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string task_file(int pid, int tid, const char* name) {
  return read_file(fmt::format("/proc/{}/task/{}/{}", pid, tid, name));
}

/// The rest of the line of a status file that begins with `field`.
std::string status_field(const std::string& status, std::string_view field) {
  const std::size_t at = status.find(fmt::format("\n{}:", field));
  if (at == std::string::npos) return {};
  const std::size_t begin = status.find_first_not_of(" \t", at + field.size() + 2);
  return status.substr(begin, status.find('\n', begin) - begin);
}

/// The function of the kernel that the thread sleeps in; empty where it runs or it is not told.
std::string wait_channel(int pid, int tid) {
  const std::string name = task_file(pid, tid, "wchan");
  return name == "0" ? "" : name;
}

}  // namespace

std::string thread_state(int pid, int tid) {
  const std::string state = status_field(task_file(pid, tid, "status"), "State");
  if (state.empty()) return "gone";
  const std::string where = wait_channel(pid, tid);
  return where.empty() ? state : fmt::format("{}, in {}", state, where);
}

bool is_stopped(int pid) {
  const std::string state = status_field(task_file(pid, pid, "status"), "State");
  return !state.empty() && (state[0] == 'T' || state[0] == 't');
}

std::string thread_name(int pid, int tid) {
  std::string name = task_file(pid, tid, "comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::vector<int> threads_named(std::string_view prefix) {
  std::vector<int> found;
  for (const std::filesystem::path& task : paths_in("/proc/self/task")) {
    const int tid = std::atoi(task.filename().c_str());
    const std::string name = read_file(task / "comm");
    if (name.rfind(prefix, 0) == 0) found.push_back(tid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool blocks_signal(int tid, int number) {
  const std::string mask =
      status_field(read_file(fmt::format("/proc/self/task/{}/status", tid)), "SigBlk");
  std::uint64_t bits = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
  return ((bits >> (number - 1)) & 1) != 0;
}

std::string command_of(int pid) {
  constexpr std::size_t kShown = 60;
  std::string words = read_file(fmt::format("/proc/{}/cmdline", pid)).substr(0, kShown);
  std::replace(words.begin(), words.end(), '\0', ' ');
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return words;
}

}  // namespace ronde::diagnosis
