// `ronde doctor`: the parts of this build, those that can run here, and limits of the machine.
#pragma once

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommand.
void add_doctor_command(CLI::App& app);

}  // namespace ronde
