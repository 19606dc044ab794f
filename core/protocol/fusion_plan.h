// Which agreed operations are moved as one: a pure function, so that every rank plans alike.
#pragma once

#include <cstddef>
#include <vector>

#include "core/protocol/request.h"

namespace ronde {

/// One tensor of one agreed operation.
struct PlanEntry {
  std::size_t item = 0;    ///< Index into Batch::items.
  std::size_t tensor = 0;  ///< Index into that request's tensors.
};

/// Operations to run as one bundle. Bundles run in the order of the plan.
struct PlannedBundle {
  std::vector<PlanEntry> entries;
};

/// Plans one batch. Successful items of kinds that fuse (allreduce, allgather, broadcast,
/// reduce_scatter, reduce) join a bundle of the same kind, dtype, op, root, scale, compression and
/// device while its bytes stay within `threshold_bytes`; looking ahead past items that do not fit.
/// Joins, barriers and failed items get no bundle. Every tensor of every other item appears in
/// exactly one bundle, and depends only on fields that agree across ranks: for allgather the bytes
/// counted are those of one row, as the first extents differ between ranks.
std::vector<PlannedBundle> plan_fusion(const Batch& batch, std::size_t threshold_bytes);

}  // namespace ronde
