// The decisions for all ranks of one process set. The root of the set's tree makes them; the others
// apply the batches that it sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/ports/reduce_kernels.h"
#include "core/protocol/batch_applier.h"
#include "core/protocol/frames.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/request.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/subtree.h"
#include "core/protocol/tree.h"
#include "core/protocol/tree_sender.h"

namespace ronde {

/// Makes batches of the operations that all ranks have submitted. Once a rank has left the set, it
/// makes no more. Threads: one at a time.
class Coordinator {
 public:
  /// The parts of the root, and `payloads` as MemberOptions has it. All outlive it.
  Coordinator(const TreeNode& node, const OwnOperations& own, Subtree& subtree,
              BatchApplier& applier, TreeSender& sender, const PayloadReducer* payloads)
      : node_(node),
        own_(own),
        subtree_(subtree),
        applier_(applier),
        cache_(applier.cache()),
        sender_(sender),
        payloads_(payloads) {}

  /// Makes batches of all complete operations.
  void agree();
  /// Adds a failed operation to the next batch.
  void fail(BatchItem failure) { append(std::move(failure)); }
  /// Sends the next batch, unless it is empty.
  void close_batch();
  /// Makes the last batch: a rank leaves the set.
  void close_set(int leaver, std::string_view why);
  /// As Member::release and Member::order_launch.
  void release(std::uint32_t bundles) {
    if (!is_closed()) building_.released += bundles;
  }
  void order_launch(std::uint64_t set) {
    if (!is_closed()) building_.launches.push_back(set);
  }

 private:
  [[nodiscard]] bool is_closed() const noexcept { return !applier_.closed().ok(); }
  [[nodiscard]] std::int32_t priority_of(std::int32_t entry) const;
  void sort_by_priority();
  [[nodiscard]] BatchItem decide(const Report& report) const;
  void name_request(const Report& report, BatchItem& item) const;
  void append(BatchItem item, std::int32_t priority = 0);
  void append_cached(int slot, std::int32_t priority);

  const TreeNode& node_;
  const OwnOperations& own_;
  Subtree& subtree_;
  BatchApplier& applier_;
  const ResponseCache& cache_;
  TreeSender& sender_;
  const PayloadReducer* const payloads_;
  BatchFrame building_;  // the next batch
  std::size_t building_bytes_ = 0;
  Batch built_;      // the same, as this rank reads it
  Completed ready_;  // reused: the operations it is made from
};

}  // namespace ronde
