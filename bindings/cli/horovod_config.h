// The file of horovodrun's --config-file.
#pragma once

#include <string>
#include <string_view>

#include "bindings/cli/command_line.h"
#include "core/base/status.h"

namespace ronde {

/// Replaces --config-file FILE among the words of horovodrun by the flags that the file asks for.
/// Flags that are given already win. `arguments`: without the command to run.
/// Errors: kInvalidArgument naming the file and the line.
Status expand_horovod_config(Arguments& arguments);

/// The flags for a file's text. It is YAML of two levels, as Horovod documents: sections that hold
/// "key: value". `given`: as above. `unknown`: keys without a meaning.
/// Errors: kInvalidArgument naming the line.
Result<Arguments> horovod_config_flags(std::string_view text, const Arguments& given,
                                       Arguments& unknown);

}  // namespace ronde
