// Sends Ronde's log lines to spdlog, each with the rank that wrote it.
#pragma once

#include "core/base/log.h"

namespace ronde {

/// Installs the sink for this process. The rank of the runtime made last is shown.
void install_log_sink(LogLevel level, int rank);

}  // namespace ronde
