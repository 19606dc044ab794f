// `ronde build`: compiles ahead what is otherwise compiled at first use.
#pragma once

namespace CLI {
class App;
}

namespace ronde {

void add_build_command(CLI::App& app);

}  // namespace ronde
