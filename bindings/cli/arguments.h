// Command lines whose tail is another command: where do our own options end?
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ronde {

using Arguments = std::vector<std::string>;

/// "-np" is one option in this field, though by the usual rules it reads as -n with the value "p".
void rename_np(Arguments& arguments);

/// Cuts the command to run off `arguments` and returns it: it begins after the first "--", or at
/// the first word that is neither an option of `app` nor an option's value.
Arguments take_command(const CLI::App& app, Arguments& arguments);

}  // namespace ronde
