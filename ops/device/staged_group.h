// Collectives of device memory over any data plane of the host: through pinned memory, in pieces,
// so that the copies in, the collective and the copies out run side by side.
#pragma once

#include <memory>

#include "core/ports/device_plane.h"
#include "ops/execution/work_runner.h"

namespace ronde {

/// Elements-wise kinds move in pieces of this many bytes.
inline constexpr std::size_t kStagedPieceBytes = std::size_t{4} << 20;

/// A device data plane that stands on `host`, which outlives it. supports() whatever the host's
/// plane does; launch() blocks until the ranks have met, and queues the last copies.
Result<std::unique_ptr<DeviceGroup>> create_staged_group(std::shared_ptr<DeviceOps> device,
                                                         WorkRunner& host, int rank, int size);

}  // namespace ronde
