// What a group works with on its device.
#pragma once

#include <functional>
#include <memory>

#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/device_ops.h"
#include "ops/device/launch_chain.h"
#include "ops/hierarchical/host_layout.h"

namespace ronde {

/// A device, and the communicators that were opened on it.
struct DeviceParts {
  std::shared_ptr<DeviceOps> device;
  std::unique_ptr<Communicator> whole;           ///< Of all ranks; null: what needs it is staged.
  std::shared_ptr<LaunchChain> chain = nullptr;  ///< Of all groups on the device; null: it is one.
  /// Of this host's ranks: allreduces go in two levels then. Null: they do not.
  std::unique_ptr<Communicator> inside = nullptr;
  HostLayout layout = {};  ///< Where `inside` is there.
};

/// Opens them for this rank's device `index`: collective over the group, at its first work in
/// device memory. Errors: kUnsupported, the same on all ranks.
using DeviceOpener = std::function<Result<DeviceParts>(int index)>;

}  // namespace ronde
