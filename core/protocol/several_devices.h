// How a request says that it cannot be served on any one device, so that all ranks learn of it.
#pragma once

#include "core/base/device.h"

namespace ronde {

/// The device kind of a request whose tensors are on several devices of its rank: an error for all
/// ranks. Travels on the wire, as the kinds of core/base/device.h.
inline constexpr auto kSeveralDevices = static_cast<DeviceKind>(2);

}  // namespace ronde
