// The settings that have an option of `ronde run`.
#pragma once

#include "bindings/cli/commands.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"

namespace ronde {

/// The variables of the options that are given, for all ranks. They are checked here, before any
/// rank starts, and so are the variables that ranks inherit and `ronde run` reads.
/// Errors: kInvalidArgument naming the option, or the variable, its value and what is allowed.
Result<EnvironmentList> given_settings(const RunRequest& request);

}  // namespace ronde
