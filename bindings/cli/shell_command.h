// The command of a job, where only a shell would understand it: "VAR=1 python train.py", "cd x".
#pragma once

#include <string>

#include "bindings/cli/command_line.h"
#include "core/base/status.h"

namespace ronde {

/// True if execvp() would find the program on this host.
bool can_run(const std::string& program);

/// The command as it is started. A Python script that cannot be run as it stands runs with the
/// Python that started this program.
Arguments runnable(Arguments command);

/// As runnable(). A shell runs what a shell alone understands, and variables before the command are
/// set, as with Horovod.
Arguments runnable_as_horovod(const Arguments& command);

/// Refuses a command that only a shell would understand.
/// Errors: kInvalidArgument, with the command to type instead.
Status check_needs_no_shell(const Arguments& command);

}  // namespace ronde
