// Ends the program from inside a subcommand's callback.
#pragma once

#include <string_view>

#include "core/base/status.h"

namespace ronde {

/// Exit status for invalid command lines and inputs.
inline constexpr int kUsageStatus = 2;

/// Ends the program with `status`, by an exception that main() turns into it.
[[noreturn]] void exit_with(int status);

/// Prints what is wrong with the arguments of `command`, and ends with kUsageStatus.
[[noreturn]] void exit_usage(std::string_view command, const Status& status);

}  // namespace ronde
