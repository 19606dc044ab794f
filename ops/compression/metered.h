// What an exchange of compressed values sends, and how long the wire is waited for.
#pragma once

#include <functional>

#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/transport.h"

namespace ronde {

/// Runs `body` over `transport` and adds what that sends and how long it waits to `facts`; the rest
/// of the time counts as compressing, but for what `body` says was decompressing. Gives its status.
Status run_metered(Transport& transport, CompressionFacts& facts,
                   const std::function<Status(Transport&)>& body);

}  // namespace ronde
