// Splits command lines that end with another command, as of `ronde run`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ronde {

using Arguments = std::vector<std::string>;

/// Reads "-np" as one option. The usual rules read it as -n with the value "p".
void rename_np(Arguments& arguments);

/// Cuts the command to run off `arguments` and returns it: it begins after the first "--", or at
/// the first word that is neither an option of `app` nor an option's value.
Arguments take_command(const CLI::App& app, Arguments& arguments);

}  // namespace ronde
