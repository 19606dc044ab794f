// `ronde timeline view` shows the full trace in Perfetto's UI, served on this machine.
#pragma once

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommand to `timeline`. The server is the Python package's: it runs in the
/// interpreter that started this program.
void add_view_command(CLI::App& timeline);

}  // namespace ronde
