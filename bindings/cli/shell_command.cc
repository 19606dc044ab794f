#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "bindings/cli/command_line.h"
#include "bindings/cli/launch/ssh.h"
#include "core/base/os/folders.h"

namespace ronde {
namespace {

/// Commands of shells that are no programs, or would change nothing as programs.
constexpr std::array<std::string_view, 11> kBuiltins = {
    ".", "cd", "eval", "exec", "export", "set", "source", "trap", "ulimit", "umask", "unset"};

/// "VAR=1".
bool is_assignment(std::string_view word) {
  const std::size_t end = word.find('=');
  if (end == 0 || end == std::string_view::npos || std::isdigit(word[0]) != 0) return false;
  return std::ranges::all_of(word.substr(0, end), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_';
  });
}

/// One word that holds a whole command line, such as "cd data && python train.py".
bool is_line(const Arguments& command) {
  const bool spaced = command.front().find_first_of(" \t\n;&|<>$") != std::string::npos;
  return command.size() == 1 && spaced && !can_run(command.front()) && !is_there(command.front());
}

bool is_builtin(const Arguments& command) {
  return std::ranges::find(kBuiltins, command.front()) != kBuiltins.end();
}

/// The text for `sh -c`.
std::string line_of(const Arguments& command) {
  if (is_line(command)) return command.front();
  Arguments quoted;
  for (const std::string& word : command) quoted.push_back(shell_quoted(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

}  // namespace

bool can_run(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

Arguments runnable(Arguments command) {
  const std::string& script = command.front();
  const bool path = script.find('/') != std::string::npos;
  const bool runs = path && ::access(script.c_str(), X_OK) == 0;
  if (!script.ends_with(".py") || runs || is_line(command)) return command;
  const char* const python = std::getenv("RONDE_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  command.insert(command.begin(), python == nullptr ? "python3" : python);
  return command;
}

Arguments runnable_as_horovod(const Arguments& command) {
  if (is_line(command)) return {"sh", "-c", command.front()};
  const auto begin = std::ranges::find_if_not(command, is_assignment);
  if (begin == command.end()) return command;
  Arguments program(begin, command.end());
  const bool by_shell = is_line(program) || is_builtin(program);
  program = by_shell ? Arguments{"sh", "-c", line_of(program)} : runnable(std::move(program));
  if (begin == command.begin()) return program;
  Arguments whole = {"env"};
  whole.insert(whole.end(), command.begin(), begin);
  whole.insert(whole.end(), program.begin(), program.end());
  return whole;
}

Status check_needs_no_shell(const Arguments& command) {
  const std::string& first = command.front();
  if (is_assignment(first) && !is_line(command) && !can_run(first)) {
    return {Code::kInvalidArgument,
            fmt::format("\"{0}\" is no program: set a variable by --env {0}, before the command",
                        first)};
  }
  if (!is_line(command) && !is_builtin(command)) return {};
  return {Code::kInvalidArgument,
          fmt::format("\"{}\" is for a shell, and no program: start it by -- sh -c {}", first,
                      shell_quoted(line_of(command)))};
}

}  // namespace ronde
