// The submissions of a rank and of all ranks below it in the tree. An operation is complete once
// the whole subtree has submitted it. At the root this means that all ranks are ready; any other
// rank reports it to its parent.
//
// A bit in a tick stands for the request that its slot held in the last batch that the sender had
// applied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"
#include "core/protocol/frames.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/tree.h"
#include "core/protocol/tree_sender.h"

namespace ronde {

/// Operations that became complete, in that order.
struct Completed {
  std::vector<std::int32_t> order;  ///< As in BatchFrame: a slot, or -1 - index of a report.
  std::vector<Report> reports;

  void add(Report report);
  void clear();
};

/// Brings the submissions of one subtree together.
///
/// Its sources are this rank, number 0, and its children, from 1. Cached named operations are bits,
/// combined 64 at a time; those with weights have a weight beside each bit. All others are entries
/// of a table. If both arrive for one operation, its bits become an entry. Threads: one at a time.
class Subtree {
 public:
  /// All outlive it.
  Subtree(const TreeNode& node, const ResponseCache& cache, TreeSender& sender);

  /// This rank has submitted an operation.
  void add(Announcement&& told);
  /// This rank has joined: it counts as ready for every allreduce.
  void join();

  /// Errors: kInvalidArgument where a child's tick does not fit what was agreed. `applied`: the
  /// last batch that this rank has applied.
  [[nodiscard]] Status check(const TickFrame& tick, int source, std::uint64_t applied) const;
  /// Takes over the bits, reports and notices of a tick that was checked, and who has joined.
  void take(TickFrame& tick, int source);

  /// The root: the operations that became complete. The caller clears it.
  [[nodiscard]] Completed& completed() noexcept { return completed_; }
  /// True if all ranks of the subtree have joined.
  [[nodiscard]] bool all_joined() const noexcept { return joined_count_ == joined_.size(); }
  /// The rank that joined last, as far as this node knows.
  [[nodiscard]] int last_joined() const noexcept { return last_joined_; }

  /// The operation was agreed or has failed: forgets it.
  void resolve(int slot);
  void resolve(const OpKey& key);
  /// It failed in batch `sequence`, before all ranks had submitted it. Reports of it may come late.
  void note_failed(const OpKey& key, std::uint64_t sequence) { failed_[key] = sequence; }
  /// True if such failures are remembered.
  [[nodiscard]] bool has_failed() const noexcept { return !failed_.empty(); }
  /// The slot gets another use: its operation becomes an entry.
  void release_slot(int slot);
  /// A join was agreed: from now on no rank counts as joined.
  void end_join();
  /// Forgets the failures that no late report can follow. Returns the last batch, up to `applied`,
  /// that all children have applied.
  std::uint64_t forget_acked(std::uint64_t applied);

  /// True if any source has submitted the operation of this slot.
  [[nodiscard]] bool is_pending(int slot) const;
  /// True if the operation is complete.
  [[nodiscard]] bool is_complete(const OpKey& key) const;
  /// When the pending operation was last used: see ResponseCache::last_use(). 0: never, or it is
  /// not pending.
  [[nodiscard]] std::uint64_t last_use(const OpKey& key) const;
  /// The children that have not reported the operation, ascending.
  [[nodiscard]] std::vector<int> lacking(const OpKey& key) const;

 private:
  struct Entry {
    std::vector<bool> seen;  // by source
    std::size_t count = 0;
    bool complete = false;
    Report merged;
  };

  [[nodiscard]] Status check_bits(const TickFrame& tick) const;
  [[nodiscard]] Status check_report(const Report& report, std::uint64_t acked) const;
  void take_bits_one_by_one(const TickFrame& tick, int source);
  [[nodiscard]] bool has_failed_since(const OpKey& key, std::uint64_t acked) const;
  /// Moves what is complete into the tick for the parent, if there is one.
  void report_completed();

  void add_words(int source, std::size_t first_word, std::span<const std::uint64_t> words);
  void add_bit(int source, int slot);
  void grow(std::size_t words);
  void complete_word(std::size_t word);
  [[nodiscard]] Report report_of_bit(std::size_t source, int slot) const;
  /// The report of a weighted operation whose bits are complete.
  [[nodiscard]] Report weighted_sum(int slot) const;
  /// Returns false, and does nothing, if the report has more than a bit and a weight.
  bool add_weight(int source, const Report& report);
  [[nodiscard]] bool has_bits(int slot) const;
  void clear_bits(int slot);

  /// A second report of a source changes nothing.
  void add_report(int source, Report report);
  Entry& open(const OpKey& key);
  void absorb(int slot, Entry& entry);
  void merge(Entry& entry, std::size_t source, Report report);
  void complete(Entry& entry);
  /// A name was submitted twice below a source. The operation fails, unless it was agreed before.
  void add_notice(int source, const Notice& notice);
  /// As above, where the operation is complete; false if its report has gone to the parent.
  bool amend_completed(const Notice& notice);
  void add_join(int source, int last_rank);
  void expand_unless_allreduce(std::size_t word);

  const TreeNode& node_;
  const ResponseCache& cache_;
  TreeSender& sender_;
  const std::vector<int> ranks_;  // of the sources
  // Bits, by slot.
  std::vector<std::vector<std::uint64_t>> ready_;  // by source
  std::vector<std::vector<double>> weights_;       // by source and slot: with a bit of `ready_`
  std::vector<std::uint64_t> done_;                // slots that are complete
  std::vector<std::uint64_t> mixed_;               // slots whose operation has an entry
  // All other operations.
  std::unordered_map<OpKey, Entry, OpKeyHash> entries_;
  Completed completed_;
  // Sources that have joined.
  std::vector<bool> joined_;
  std::size_t joined_count_ = 0;
  int last_joined_ = -1;
  bool reported_join_ = false;  // the parent knows that this subtree has joined
  // Ticks cross batches.
  std::vector<std::uint64_t> acked_;  // by source: the last batch it has applied
  std::unordered_map<OpKey, std::uint64_t, OpKeyHash> failed_;  // with the batch of the failure
};

}  // namespace ronde
