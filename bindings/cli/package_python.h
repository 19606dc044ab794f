// Commands that the Python package carries out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// Becomes the Python that the `ronde` command of the package was started by, with these arguments.
/// Where there is none, ends as exit_usage() does; `otherwise` says what to do instead.
[[noreturn]] void become_python(std::string_view command, std::vector<std::string> arguments,
                                std::string_view otherwise);

}  // namespace ronde
