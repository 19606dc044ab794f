// Environment variables that look like settings but are none, mostly mistyped names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/horovod_names.h"

namespace ronde {

/// This process's environment variables.
std::vector<NamedValue> process_variables();

/// One sentence for each name that begins with RONDE_ and is no setting. It names the most similar
/// setting, if any. Likewise of HOROVOD_ variables without an effect. Names that begin with
/// RONDE_TEST_ or RONDE_CHAOS_ belong to tests.
std::vector<std::string> describe_unknown_settings(std::span<const NamedValue> variables);

}  // namespace ronde
