// The parts of one member of a set, for tests of each.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/protocol/batch_applier.h"
#include "core/protocol/operation_watch.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/subtree.h"
#include "core/protocol/tree.h"
#include "core/protocol/tree_sender.h"
#include "tests/core/protocol/harness.h"

namespace ronde {

/// One node of a set's tree.
struct TreeParts {
  TreeParts(int rank, std::vector<int> all, const TreePlace& place, std::size_t capacity = 4)
      : members(std::move(all)), node{place, rank, members}, cache(capacity) {}

  /// The root, whose children are all others.
  static TreePlace root(std::vector<int> children) { return {-1, std::move(children)}; }

  Status submit(const Request& request) {
    Announcement told;
    const Status status = own.submit(request, ++tickets, {}, {}, told);
    if (status.ok()) subtree.add(std::move(told));
    return status;
  }
  /// The operations of all batches since the last call.
  std::vector<Agreed> agreed() {
    std::vector<Batch> batches;
    applier.take_batches(batches);
    std::vector<Agreed> items;
    for (Batch& batch : batches)
      std::move(batch.items.begin(), batch.items.end(), std::back_inserter(items));
    return items;
  }
  /// The frames since the last call, the tick included.
  std::vector<OutFrame> sent() {
    std::vector<OutFrame> out;
    sender.send_tick(applier.sequence());
    sender.take(out);
    return out;
  }

  const std::vector<int> members;
  const TreeNode node;
  ResponseCache cache;
  OwnOperations own{node, cache};
  TreeSender sender{node};
  Subtree subtree{node, cache, sender};
  OperationWatch watch{node.rank, {}, {}, own};
  BatchApplier applier{node, own, subtree, cache, watch};
  std::uint64_t tickets = 0;
};

/// Rank 3, which reports to rank 0 for itself, rank 5 and rank 6.
struct InnerParts : TreeParts {
  InnerParts() : TreeParts(3, {0, 3, 5, 6}, {0, {5, 6}}) {}
};

/// "All ranks below `rank` have submitted it."
inline Report report_by(int rank, Request request) {
  Report report;
  report.rank = rank;
  report.request = std::make_shared<const Request>(std::move(request));
  return report;
}

}  // namespace ronde
