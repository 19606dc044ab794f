// Measures the bytes that an exchange of compressed values sends and the time that it waits.
#pragma once

#include <functional>

#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/transport.h"

namespace ronde {

/// Runs `body` over `transport`; adds its bytes and its waiting to `facts`. The rest of the time
/// counts as compression, less the decompression that `body` notes. Returns the body's status.
Status run_metered(Transport& transport, CompressionFacts& facts,
                   const std::function<Status(Transport&)>& body);

}  // namespace ronde
