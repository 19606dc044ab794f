// `ronde doctor`: what this build has, what can run on this machine, and what may get in the way.
#pragma once

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommand.
void add_doctor_command(CLI::App& app);

}  // namespace ronde
