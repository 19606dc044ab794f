// Files and folders that an option names for output: checked before anything runs.
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace ronde {

/// Makes sure that the file `path` can be written; neither makes nor changes it. An empty path is
/// none. Devices and pipes are not opened.
/// Errors: kInvalidArgument naming `option`, the path, why not and what to do.
Status check_output_file(std::string_view option, const std::string& path);

/// Makes the folder `path` unless it is there, and makes sure that files can be written in it. An
/// empty path is none. Errors: as above.
Status make_output_folder(std::string_view option, const std::string& path);

}  // namespace ronde
