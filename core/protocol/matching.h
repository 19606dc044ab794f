// Submissions of this rank, matched with the reports of its children. An operation that the whole
// subtree has submitted goes into the tick for the parent, or at the root to the batcher. A bit
// stands for the request that its slot held in the last batch that the sender acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/aggregator.h"
#include "core/protocol/frames.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/tree.h"

namespace ronde {

/// The state that the parts of one rank's negotiation share.
struct NegotiationState {
  /// `rank` is the job's; `place` is its place in the tree.
  NegotiationState(int rank, const TreePlace& place, std::size_t cache_capacity);

  ResponseCache cache;
  OwnOperations own;      ///< This rank's operations that are in flight.
  Aggregator aggregator;  ///< Which sources of the subtree are ready.
  TickDraft draft;        ///< For the parent.
};

/// Matches the operations that the ranks of one subtree submit. Threads: one at a time.
class Matching {
 public:
  /// `members`: the job's ranks in the set, ascending. All references outlive it.
  Matching(int rank, const std::vector<int>& members, const TreePlace& place,
           NegotiationState& state)
      : rank_(rank),
        members_(members),
        place_(place),
        cache_(state.cache),
        own_(state.own),
        aggregator_(state.aggregator),
        draft_(state.draft),
        acked_(place.children.size() + 1, 0) {}

  /// As Negotiator::submit and Negotiator::join.
  Status submit(const Request& request, std::uint64_t ticket, TimePoint now,
                InlinePayload payload = {});
  Status join(std::uint64_t ticket);

  /// Checks the reports of child number `source` (from 1) against what was agreed up to batch
  /// `sequence`. Errors: kInvalidArgument; nothing has changed.
  [[nodiscard]] Status check_tick(const TickFrame& tick, int source, std::uint64_t sequence) const;
  /// Takes over the bits, reports and notices of a tick that was checked.
  void apply_reports(TickFrame& tick, int source);
  /// Not at the root: puts the complete operations into the draft.
  void report_completed();

  /// The operation is agreed. Moves this rank's ticket and request to `into`; false where this rank
  /// has not submitted it.
  bool take(const OpKey& key, Agreed& into);
  /// As above, for the named operation of a slot.
  bool take_slot(int slot, Agreed& into);
  /// Call before the cache gives the slot to another request.
  void vacate_slot(int slot);
  /// The operation failed in batch `sequence`, before all ranks had submitted it. Late reports of
  /// it are ignored; a submission of this rank gets `status` where `owed`.
  void fail_early(const OpKey& key, const Status& status, std::uint64_t sequence, bool owed);
  /// All ranks have joined. Returns the ticket of this rank's join.
  std::uint64_t end_join();
  /// Removes all operations, the join last.
  std::vector<Agreed> take_all();
  /// Batch `sequence` was applied: forgets all that no child can refer to any more.
  void forget_acked(std::uint64_t sequence);

  /// This rank's operation, by name or number; null where it is not in flight.
  [[nodiscard]] const OwnOperation* own_in_flight(const OpKey& key) const;
  [[nodiscard]] bool has_joined() const noexcept { return join_ticket_ != 0; }
  /// Whether this rank has submitted the operation or takes part with zeros.
  [[nodiscard]] bool takes_part(const OpKey& key) const;
  [[nodiscard]] bool is_member(int rank) const;
  /// This rank's facts about operations that wait: its own, or that it lacks them.
  [[nodiscard]] std::vector<StallFact> own_facts(const std::vector<OpKey>& keys,
                                                 TimePoint now) const;
  [[nodiscard]] std::vector<std::string> describe_pending() const;
  /// `it has not waited for allreduce "w"`, of the oldest operation of this rank that is in flight;
  /// empty if there is none.
  [[nodiscard]] std::string describe_not_awaited() const;

 private:
  static constexpr int kSelf = 0;  // the aggregator's source number of this rank

  Status submit_otherwise(const Request& request, std::uint64_t ticket, TimePoint now,
                          InlinePayload payload);
  Status refuse_duplicate(const OwnOperation& in_flight, const Request& again, const OpKey& key);
  /// Puts this rank's weight into its report; one that is not allowed fails the operation.
  void add_weight(const Request& request, const OpKey& key, Report& report) const;
  /// Of a named operation that is cached in `slot`: by a bit if that is all to say.
  void report_known(const Request& request, int slot, InlinePayload payload);
  void report_own(const Request& request, const OpKey& key, int slot, InlinePayload payload);
  bool take_own(const OpKey& key, Agreed& into);
  [[nodiscard]] Status check_bits(const TickFrame& tick) const;
  void apply_bits_one_by_one(const TickFrame& tick, int source);
  void apply_notice(int source, const Notice& notice);
  [[nodiscard]] bool has_failed_since(const OpKey& key, std::uint64_t acked) const;

  const int rank_;
  const std::vector<int>& members_;
  const TreePlace& place_;
  ResponseCache& cache_;
  OwnOperations& own_;
  Aggregator& aggregator_;
  TickDraft& draft_;
  std::vector<std::uint64_t> acked_;  // by source: the last batch it has processed
  std::uint64_t unnamed_ = 0;         // this rank's unnamed submissions since the last join
  std::uint64_t join_ticket_ = 0;     // not 0: this rank has joined
  bool reported_join_ = false;        // the parent knows that this subtree has joined

  // Operations that failed before all ranks had submitted them. `failed_`: the batch of the
  // failure, for reports that crossed it. `owed_`: the error for this rank when it submits them
  // after all.
  std::unordered_map<OpKey, std::uint64_t, OpKeyHash> failed_;
  std::unordered_map<OpKey, Status, OpKeyHash> owed_;
};

}  // namespace ronde
