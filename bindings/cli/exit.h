// How a subcommand ends the program from inside its callback.
#pragma once

#include <string_view>

#include "core/base/status.h"

namespace ronde {

/// Exit status for command lines and inputs that are not valid.
inline constexpr int kUsageStatus = 2;

/// Ends the program with `status`, by an exception that main() turns into it.
[[noreturn]] void exit_with(int status);

/// Says what is wrong with what `command` was given, and ends with kUsageStatus.
[[noreturn]] void exit_usage(std::string_view command, const Status& status);

}  // namespace ronde
