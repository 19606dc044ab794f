// Which agreed operations are moved as one. It depends on the batch alone, so all ranks fuse alike.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/engine/operation.h"
#include "core/ports/executor.h"
#include "core/protocol/request.h"

namespace ronde {

/// Fuses one batch into bundles, which run in the order returned.
///
/// `operations`: this rank's, one for each item of the batch; null where it has joined. `members`:
/// the job's ranks in the set, as Request::root names one of them.
///
/// Successful items of kinds that fuse share a bundle while its bytes stay within
/// `threshold_bytes`. They must agree on kind, dtype, op, root, scale, compression and device.
/// Items that do not fit do not end a bundle. Joins, barriers and failed items get no bundle. Each
/// tensor of any other item is in exactly one bundle. Only fields that agree across ranks count: an
/// allgather counts the bytes of one row, as the first extents differ between ranks.
std::vector<Bundle> fuse(const Batch& batch, std::span<const OperationPtr> operations,
                         std::span<const int> members, std::size_t threshold_bytes);

}  // namespace ronde
