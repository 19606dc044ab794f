#include "bindings/cli/build_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bindings/cli/package_python.h"

namespace ronde {

void add_build_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("build", "Compile a framework's operations ahead of their first use");
  command->footer(
      "Example:\n  ronde build tensorflow\n"
      "Compiles against the TensorFlow of this Python into $XDG_CACHE_HOME/ronde, else\n"
      "~/.cache/ronde, and prints the file's name.\n");
  auto framework = std::make_shared<std::string>();
  command->add_option("FRAMEWORK", *framework, "The framework: tensorflow")
      ->required()
      ->check(CLI::IsMember({"tensorflow"}));
  command->callback([framework] {
    become_python("ronde build", {"-m", "ronde._build", *framework},
                  "it needs Python and the framework: use the ronde command of the Python package");
  });
}

}  // namespace ronde
