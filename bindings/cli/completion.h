// Completion of the command line in shells: `ronde completion bash`.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/command_line.h"

namespace ronde {

/// The commands, or the options, that may stand in the place of the last of `words`, which has been
/// begun. `words` follow the name of this program. Empty where the shell's own completion of files
/// is better, such as for the program of `ronde run`.
std::vector<std::string> completions(const CLI::App& app, const Arguments& words);

/// Adds the subcommand. It prints the script for a shell, which asks `ronde complete-words`.
void add_completion_command(CLI::App& app);

}  // namespace ronde
