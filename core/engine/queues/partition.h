// Cuts a large bundle into partitions that run one after the other. Urgent work then waits for one
// partition only.
#pragma once

#include <cstddef>
#include <vector>

#include "core/engine/queues/fusion.h"

namespace ronde {

/// Cuts a bundle into partitions of about equal size, at most `partition_bytes` (0: no limit) plus
/// the alignment of cuts. Cuts depend on the shapes alone, so all ranks cut alike. A tensor that is
/// cut is flattened. Counts the pieces in their operations.
///
/// Returns `whole` as it is if it is small enough, or of a kind that cannot be cut. Compressed
/// bundles stay whole too, as error feedback works on whole tensors, and so does Adasum.
std::vector<Bundle> cut_bundle(Bundle whole, std::size_t partition_bytes);

}  // namespace ronde
