// `ronde build`: compiles a framework's operations before their first use.
#pragma once

namespace CLI {
class App;
}

namespace ronde {

void add_build_command(CLI::App& app);

}  // namespace ronde
