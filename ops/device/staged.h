// Collectives of device memory over any communicator of the host: through pinned memory, in pieces,
// so that the copies in, the collective and the copies out run side by side.
#pragma once

#include <memory>

#include "core/ports/communicator.h"

namespace ronde {

/// Elements-wise kinds move in pieces of this many bytes.
inline constexpr std::size_t kStagedPieceBytes = std::size_t{4} << 20;

/// A communicator for device memory that stands on `host`, which outlives it. Supports everything;
/// run() blocks until the host's collective is done, and queues the last copies.
Result<std::unique_ptr<Communicator>> create_staged(std::shared_ptr<DeviceOps> device,
                                                    Communicator& host, int rank, int size);

}  // namespace ronde
