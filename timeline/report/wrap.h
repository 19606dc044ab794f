// Text for a terminal.
#pragma once

#include <string>

namespace ronde::report {

/// Appends `text` broken into lines of about 96 characters, all but the first indented, and a line
/// end.
void wrap(std::string& out, const std::string& text, std::size_t indent);

}  // namespace ronde::report
