#include "bindings/runtime/lost_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace ronde {
namespace {

constexpr int kMostAncestors = 64;

/// The process that has started another one; 0 if unknown.
pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t name_end = text.rfind(')');  // "PID (NAME) STATE PARENT ..."
  if (name_end == std::string::npos || name_end + 4 > text.size()) return 0;
  return static_cast<pid_t>(std::atoi(text.c_str() + name_end + 4));  // NOLINT(cert-err34-c)
}

/// "ronde run-agent", by any path.
bool is_agent(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::string program, word;
  std::getline(file, program, '\0');
  std::getline(file, word, '\0');
  return word == "run-agent" && program.substr(program.rfind('/') + 1) == "ronde";
}

std::optional<pid_t> agent_above() {
  pid_t pid = ::getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    if (is_agent(pid)) return pid;
  }
  return std::nullopt;
}

}  // namespace

Status check_job_is_known(const Config& config, const Environment& environment) {
  constexpr std::array<const char*, 3> kOfARank = {"RONDE_RANK", "RONDE_SIZE", "RONDE_WORKER"};
  const bool known = std::ranges::any_of(
      kOfARank, [&](const char* name) { return environment(name).has_value(); });
  if (known || config.size > 1 || !config.job_id.empty()) return {};
  const auto agent = agent_above();
  if (!agent) return {};
  return {Code::kInvalidArgument,
          fmt::format("`ronde run` (agent of pid {}) has started this process, but its environment "
                      "has no RONDE_RANK and RONDE_SIZE: a program between has dropped them. Pass "
                      "all RONDE_* variables on, or set RONDE_RANK=0 and RONDE_SIZE=1 for a job of "
                      "this process alone",
                      *agent)};
}

}  // namespace ronde
