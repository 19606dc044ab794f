#include "bindings/cli/exit.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace ronde {

void exit_with(int status) { throw CLI::RuntimeError(status); }

void exit_usage(std::string_view command, const Status& status) {
  fmt::print(stderr, "{}: {}\nRun {} --help for what is allowed.\n", command, status.message(),
             command);
  exit_with(kUsageStatus);
}

}  // namespace ronde
