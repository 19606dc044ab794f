// Chooses the agreed operations that are moved as one, and cuts large ones: urgent work then waits
// for one partition only. Both depend on the batch alone, so all ranks do alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "core/engine/queues/operation.h"
#include "core/ports/executor.h"
#include "core/protocol/request.h"

namespace ronde {

/// A bundle on its way to the executor.
struct QueuedBundle : Bundle {
  /// The operation of each tensor; null where this rank has joined.
  std::vector<OperationPtr> operations;
  std::vector<std::int32_t> priorities;   ///< Of each tensor, as agreed; descending.
  std::int32_t priority = 0;              ///< The highest of them.
  bool paced = false;                     ///< The coordinator lets it go; see BundleQueue.
  std::list<OutputAllocator> allocators;  ///< Of pieces without memory; the tensors point here.
};

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
/// `check_mean`: sets BundleTensor::checks_mean of operations with this in their names; empty: of
/// none.
std::vector<QueuedBundle> fuse(const Batch& batch, std::span<const OperationPtr> operations,
                               std::span<const int> members, std::size_t threshold_bytes,
                               std::string_view check_mean = {});

/// Cuts a bundle into partitions of about equal size, at most `partition_bytes` (0: no limit) plus
/// the alignment of cuts. Cuts depend on the shapes alone, so all ranks cut alike. A tensor that is
/// cut is flattened. Counts the pieces in their operations.
///
/// Returns `whole` as it is if it is small enough, or of a kind that cannot be cut. Compressed
/// bundles stay whole too, as error feedback works on whole tensors, and so does Adasum.
std::vector<QueuedBundle> cut_bundle(QueuedBundle whole, std::size_t partition_bytes);

}  // namespace ronde
