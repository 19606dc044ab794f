#include "core/base/program_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/base/setting_kinds.h"

namespace ronde {

std::span<const ProgramSetting> program_settings() {
  static const std::vector<ProgramSetting> kTable = {
      {{"RONDE_TRACEBACKS", "", "length",
        "tracebacks of Python scripts: short, without Ronde's frames, or full"},
       "short",
       {"short", "full"}},
      {{"RONDE_LEAVE_SIGNAL", "", "signal",
        "signal that makes an elastic worker leave at its next commit: TERM, USR1, off"},
       "TERM",
       {"TERM", "USR1", "off"}},
      {{"RONDE_AGENT_ADDRESS", "", "address",
        "address of this host, which --remote-shell sets where the host cannot know it"},
       "",
       {}},
  };
  return kTable;
}

Status check_program_settings(const Environment& environment) {
  for (const ProgramSetting& setting : program_settings()) {
    const std::string value = environment(std::string(setting.info.name)).value_or("");
    const auto& allowed = setting.allowed;
    if (value.empty() || allowed.empty() || std::ranges::count(allowed, value) != 0) continue;
    return bad_value(setting.info.name, value, fmt::format("{}", fmt::join(allowed, ", ")));
  }
  return {};
}

}  // namespace ronde
