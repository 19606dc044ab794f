// Commands that the Python package implements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// Replaces this process by the Python that started the package's `ronde` command, with these
/// arguments. Without one, ends as exit_usage() does; `otherwise`: the advice to print then.
[[noreturn]] void become_python(std::string_view command, std::vector<std::string> arguments,
                                std::string_view otherwise);

}  // namespace ronde
