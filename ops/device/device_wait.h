// A host thread's wait for a device, for the few places that cannot leave it to a stream.
#pragma once

#include "core/base/abort.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// Blocks until the event is reached: spins briefly, then looks every 50 us.
/// Errors: the abort's status; DeviceEvent::reached()'s.
Status wait_on_host(const DeviceEvent& event, const AbortToken& abort);

}  // namespace ronde
