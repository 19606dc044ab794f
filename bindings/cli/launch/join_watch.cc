#include "bindings/cli/launch/join_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace ronde {

std::string JoinWatch::complaint(const std::vector<std::string>& command) const {
  const auto script =
      std::ranges::find_if(command, [](const std::string& word) { return word.ends_with(".py"); });
  if (joined_ || ended_ < 2 || script == command.end()) return {};
  return fmt::format(
      "no rank has joined the job: {} processes ran {}, each for itself; the script must call "
      "ronde.init(), or hvd.init(), unless its processes meet in another way",
      ended_, std::filesystem::path(*script).filename().string());
}

}  // namespace ronde
