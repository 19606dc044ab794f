// The program `ronde`.
#include <fmt/format.h>

#include <exception>

#include "bindings/cli/commands.h"

/// The last resort: no exception ends this program without a sentence.
int main(int argc, char** argv) try {
  return ronde::run_command_line(argv[0], ronde::Arguments(argv + 1, argv + argc));
} catch (const std::exception& error) {
  fmt::print(stderr, "ronde: {}; Ronde did not expect this error: please report it\n",
             error.what());
  return 1;
}
