// `ronde top`: a running job, live, from the traces that it writes.
#pragma once

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommand. It reads and changes nothing.
void add_top_command(CLI::App& app);

}  // namespace ronde
