// Variables that look like settings and are none: most often a name that was mistyped.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ronde {

/// The names of this process's environment variables.
std::vector<std::string> process_variable_names();

/// One sentence for each name that begins with RONDE_ and is no setting, with the setting that was
/// perhaps meant. Names that begin with RONDE_TEST_ or RONDE_CHAOS_ are left to tests.
std::vector<std::string> describe_unknown_settings(std::span<const std::string> names);

}  // namespace ronde
