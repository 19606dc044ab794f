// `horovodrun`: `ronde run` under the name and with the flags of Horovod's launcher.
#pragma once

#include <memory>

#include "bindings/cli/run_command.h"

namespace CLI {
class App;
}

namespace ronde {

/// True if this program was started as horovodrun.
bool is_horovodrun(const char* program);

/// Adds horovodrun's usual flags. Flags without an effect are accepted with a note.
void add_horovodrun_options(CLI::App& app, std::shared_ptr<RunRequest> request);

}  // namespace ronde
