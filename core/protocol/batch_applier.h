// What one rank does with the batches of the coordinator. All ranks apply the same batches in the
// same order, so they agree on operations, cached requests and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/protocol/frames.h"
#include "core/protocol/operation_watch.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/request.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/subtree.h"
#include "core/protocol/tree.h"

namespace ronde {

/// Applies batches to what this rank has submitted and knows. Threads: one at a time.
class BatchApplier {
 public:
  /// All outlive it.
  BatchApplier(const TreeNode& node, OwnOperations& own, Subtree& subtree, ResponseCache& cache,
               OperationWatch& watch)
      : node_(node), own_(own), subtree_(subtree), cache_(cache), watch_(watch) {}

  /// Errors: kInvalidArgument where the batch does not fit this rank's state.
  [[nodiscard]] Status check(const BatchFrame& batch) const;
  /// Applies a batch that was checked.
  void apply(const BatchFrame& batch);

  // The coordinator applies its batch while it makes it, as each item depends on those before.

  /// Applies an item of the next batch. `out` gets the operations that it ends.
  void apply(const BatchItem& item, std::int32_t priority, Batch& out);
  /// As above, for the named operation of a slot.
  void apply(int slot, std::int32_t priority, Batch& out);
  /// Ends the next batch; take_batches() gives `batch` away.
  void finish(Batch batch);

  /// The requests that all ranks know by a slot.
  [[nodiscard]] const ResponseCache& cache() const noexcept { return cache_; }
  /// The number of the last batch that has ended.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  /// Appends the batches since the last call.
  void take_batches(std::vector<Batch>& out);
  /// Forgets what no child can refer to any more.
  void forget_acked();
  /// The error of a rank that has left, after which nothing is agreed; ok where none has.
  [[nodiscard]] const Status& closed() const noexcept { return closed_; }
  /// As Member::waits_for_leaver.
  [[nodiscard]] std::string waits_for_leaver(const Request& request) const;
  /// All but `frames_sent`.
  [[nodiscard]] const AgreementStats& stats() const noexcept { return stats_; }

 private:
  [[nodiscard]] Status check_item(const BatchItem& item, std::size_t& slots) const;
  [[nodiscard]] Status check_named_slot(const BatchItem& item) const;
  void apply_item(const BatchItem& item, Batch& out);
  void apply_cached(int slot, std::uint64_t ordinal, Batch& out);
  void apply_full(const BatchItem& item, Batch& out);
  void apply_failure(const BatchItem& item, Batch& out);
  void apply_join(int last_joined, Batch& out);
  void apply_leave(const BatchItem& closing, Batch& out);
  /// The root need not ask about this operation any more.
  void settle(const std::string& name, std::uint64_t ordinal);

  const TreeNode& node_;
  OwnOperations& own_;
  Subtree& subtree_;
  ResponseCache& cache_;
  OperationWatch& watch_;
  std::uint64_t sequence_ = 0;
  std::vector<Batch> batches_;
  Status closed_;
  bool left_in_order_ = false;  // the rank that left gave no reason
  AgreementStats stats_;
};

}  // namespace ronde
