// `ronde bench`: measures Ronde beside other libraries and memcpy, interleaved in one run.
#pragma once

#include "bindings/cli/arguments.h"

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommand. `arguments` are those of this program without its name: its ranks are
/// started with them. The callback ends by throwing CLI::RuntimeError with the exit status.
CLI::App* add_bench_command(CLI::App& app, const Arguments& arguments);

}  // namespace ronde
