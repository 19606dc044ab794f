// Environment variables that look like settings but are none, mostly mistyped names.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ronde {

/// The names of this process's environment variables.
std::vector<std::string> process_variable_names();

/// One sentence for each name that begins with RONDE_ and is no setting. It names the most similar
/// setting, if any. Names that begin with RONDE_TEST_ or RONDE_CHAOS_ belong to tests.
std::vector<std::string> describe_unknown_settings(std::span<const std::string> names);

}  // namespace ronde
