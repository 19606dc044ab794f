// The reports of one tree node's sources: the rank itself and its children. An operation is
// complete once the whole subtree has reported it. At the root this means that all ranks are ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/frames.h"
#include "core/protocol/response_cache.h"

namespace ronde {

/// Operations that became complete, in that order.
struct Completed {
  std::vector<std::int32_t> order;  ///< As in BatchFrame: a slot, or -1 - index of a report.
  std::vector<Report> reports;

  void add(Report report);
  void clear();
};

/// The result of a notice that a name was submitted twice.
enum class NoticeResult : std::uint8_t {
  kStale,      ///< The operation was agreed before: nothing to do.
  kAttached,   ///< The operation will fail once it is complete.
  kForwarded,  ///< The operation is complete here: the parent must get the notice.
};

/// Counts which sources of one subtree are ready for each operation.
///
/// Cached named operations are bits, combined 64 at a time; those with weights have a weight beside
/// each bit. All others are entries of a table. If both arrive for one operation, its bits become
/// an entry. Threads: one at a time.
class Aggregator {
 public:
  /// `ranks` names the rank of each source: index 0 is this rank, the rest are its children.
  Aggregator(std::vector<int> ranks, const ResponseCache& cache);

  /// A source is ready for these cached named operations. Each bit is in the cache.
  void add_words(int source, std::size_t first_word, std::span<const std::uint64_t> words);
  void add_bit(int source, int slot);
  /// A source is ready for this operation. A second report changes nothing.
  void add_report(int source, Report report);
  /// A name was submitted twice within a source's subtree.
  NoticeResult add_notice(int source, const Notice& notice);

  /// All ranks of a source have joined: it now counts as ready for every allreduce.
  void join(int source, int last_rank);
  [[nodiscard]] bool joined(int source) const { return joined_[static_cast<std::size_t>(source)]; }
  [[nodiscard]] bool all_joined() const noexcept { return joined_count_ == ranks_.size(); }
  /// The rank that joined last, as far as this node knows.
  [[nodiscard]] int last_joined() const noexcept { return last_joined_; }
  /// A join was agreed: from now on no rank counts as joined.
  void leave_join();

  /// The operation was agreed or has failed: forgets it.
  void resolve_slot(int slot);
  void resolve(const OpKey& key);
  /// The slot gets another use: its operation becomes an entry.
  void release_slot(int slot);

  /// True if any source has reported the operation of this slot.
  [[nodiscard]] bool is_pending(int slot) const;
  /// True if the operation is complete.
  [[nodiscard]] bool is_complete(const OpKey& key) const;
  /// When the pending operation was last used: see ResponseCache::last_use(). 0: never, or it is
  /// not pending.
  [[nodiscard]] std::uint64_t last_use(const OpKey& key) const;
  /// True if this source has reported the operation.
  [[nodiscard]] bool has(int source, const OpKey& key) const;

  /// The operations that became complete. The caller clears it.
  Completed& completed() noexcept { return completed_; }

 private:
  struct Entry {
    std::vector<bool> seen;  // by source
    std::size_t count = 0;
    bool complete = false;
    Report merged;
  };
  using Entries = std::unordered_map<OpKey, Entry, OpKeyHash>;

  void grow(std::size_t words);
  void complete_word(std::size_t word);
  [[nodiscard]] bool has_bits(int slot) const;
  void clear_bits(int slot);
  Entry& open(const OpKey& key);
  void absorb(int slot, Entry& entry);
  void merge(Entry& entry, std::size_t source, Report report);
  void check(Entry& entry);
  NoticeResult amend_completed(const Notice& notice);
  [[nodiscard]] Report report_of_bit(std::size_t source, int slot) const;
  /// The report of a weighted operation whose bits are complete.
  [[nodiscard]] Report weighted_sum(int slot) const;
  /// Returns false, and does nothing, if the report has more than a bit and a weight.
  bool add_weight(int source, const Report& report);
  void expand_unless_allreduce(std::size_t word);

  const std::vector<int> ranks_;
  const ResponseCache& cache_;
  std::vector<std::vector<std::uint64_t>> ready_;  // by source: its bits
  std::vector<std::vector<double>> weights_;       // by source and slot: with a bit of `ready_`
  std::vector<std::uint64_t> done_;                // slots that are complete
  std::vector<std::uint64_t> mixed_;               // slots whose operation has an entry
  Entries entries_;
  std::vector<bool> joined_;  // by source
  std::size_t joined_count_ = 0;
  int last_joined_ = -1;
  Completed completed_;
};

}  // namespace ronde
