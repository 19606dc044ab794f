#include "bindings/cli/package_python.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "bindings/cli/exit.h"

namespace ronde {

void become_python(std::string_view command, std::vector<std::string> arguments,
                   std::string_view otherwise) {
  const char* const python = std::getenv("RONDE_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  if (python == nullptr) exit_usage(command, {Code::kUnavailable, std::string(otherwise)});
  arguments.insert(arguments.begin(), python);
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  ::execv(words.front(), words.data());
  exit_usage(command, {Code::kUnavailable, fmt::format("cannot run {}: {}", python,
                                                       std::generic_category().message(errno))});
}

}  // namespace ronde
