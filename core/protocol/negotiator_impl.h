// The parts of a negotiator and how they meet. Implemented in negotiator.cc (this rank's own
// calls), negotiator_tick.cc (the way up), negotiator_batch.cc (the way down), negotiator_stall.cc,
// negotiator_cycle.cc, negotiator_leave.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/aggregator.h"
#include "core/protocol/negotiator.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/stall_query.h"
#include "core/protocol/tree.h"
#include "core/protocol/wire.h"

namespace ronde {

/// Submissions and frames from below go through the aggregator; what is complete goes up in a tick,
/// or, at the root, into a batch. Batches go through apply() on every rank, in the same order.
class Negotiator::Impl {
 public:
  explicit Impl(NegotiatorOptions options);

  Status submit(const Request& request, std::uint64_t ticket, TimePoint now);
  Status join(std::uint64_t ticket);
  void leave(std::string_view why);
  void declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                       TimePoint now);
  [[nodiscard]] bool closed() const noexcept { return !closed_.ok(); }
  [[nodiscard]] bool is_root() const noexcept { return place_.parent < 0; }
  void release(std::uint32_t bundles) {
    if (!closed()) building_.released += bundles;
  }
  void order_launch(std::uint64_t set) {
    if (!closed()) building_.launches.push_back(set);
  }
  Status on_frame(int from, std::span<const std::byte> frame, TimePoint now);
  void on_time(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const noexcept { return deadline_; }
  void take_frames(std::vector<OutFrame>& out);
  void take_batches(std::vector<Batch>& out);
  void take_warnings(std::vector<std::string>& out);
  [[nodiscard]] std::size_t pending() const noexcept {
    return own_.size() + (join_ticket_ != 0 ? 1 : 0);
  }
  [[nodiscard]] std::vector<std::string> describe_pending();
  [[nodiscard]] const NegotiatorStats& stats() const noexcept { return stats_; }

 private:
  static constexpr std::size_t kKeysPerQuery = 32;  // far below a frame's limit
  static constexpr int kSelf = 0;                   // the aggregator's source number of this rank

  // This rank's own calls.
  Status submit_otherwise(const Request& request, std::uint64_t ticket, TimePoint now);
  Status refuse_duplicate(const OwnOperation& in_flight, const Request& again, const OpKey& key);
  void report_own(const Request& request, const OpKey& key, int slot);
  [[nodiscard]] const OwnOperation* own_in_flight(const OpKey& key) const;
  [[nodiscard]] bool is_member(int rank) const;

  // Ticks: from children, to the parent.
  [[nodiscard]] Status check_tick(const TickFrame& tick, int source) const;
  [[nodiscard]] Status check_bits(const TickFrame& tick) const;
  void apply_tick(TickFrame& tick, int source, TimePoint now);
  void apply_bits_one_by_one(const TickFrame& tick, int source);
  void apply_notice(int source, const Notice& notice);
  [[nodiscard]] bool has_failed_since(const OpKey& key, std::uint64_t acked) const;
  void forget_acked();
  void move_completed_up();
  void flush_tick();

  // Batches: made at the root, applied everywhere.
  Status from_parent(FrameKind kind, std::span<const std::byte> frame, TimePoint now);
  [[nodiscard]] Status check_batch(const BatchFrame& batch) const;
  [[nodiscard]] Status check_item(const BatchItem& item, std::size_t& slots) const;
  [[nodiscard]] bool takes_part(const OpKey& key) const;
  void apply_batch(const BatchFrame& batch);
  void agree();
  [[nodiscard]] std::int32_t priority_of(const Completed& ready, std::int32_t entry) const;
  void sort_by_priority(Completed& ready) const;
  [[nodiscard]] BatchItem decide(const Report& report) const;
  void append(BatchItem item, std::int32_t priority = 0);
  void append_cached(int slot, std::int32_t priority);
  void close_batch();
  void apply_cached(int slot, std::uint64_t ordinal, Batch& out);
  void apply_entry(const BatchFrame& batch, std::size_t index, Batch& out);
  void apply_item(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_full(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_failure(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_join(int last_joined, Batch& out);
  bool take_own(const OpKey& key, Agreed& into);
  void settle(const OpKey& key);
  void finish_batch(std::uint64_t sequence, Batch batch);
  void forward(std::span<const std::byte> frame);

  // Leaving.
  void note_leaver(int rank, std::string_view why);
  void close_set(int leaver, std::string_view why);
  void apply_leave(const BatchItem& closing, Batch& out);

  // Stalls.
  void watch_from(const Request& request, TimePoint submitted);
  /// Root: whether settle() has anything to do.
  [[nodiscard]] bool watches() const noexcept {
    return is_root() && (query_.active() || !last_noted_.empty() || !overdue_.empty());
  }
  [[nodiscard]] TimePoint due(const OwnOperation& operation) const;
  void note_overdue(const Overdue& overdue, TimePoint now);
  void start_query(TimePoint now);
  void answer_query(const QueryFrame& query, TimePoint now);
  [[nodiscard]] StallFact own_fact(const OpKey& key, const std::vector<OpKey>& asked,
                                   TimePoint now);
  void after_answer(TimePoint now);
  void judge(std::vector<StallFact> facts, TimePoint now);
  void warn(const WarningFrame& warning);

  // Ranks that wait for each other.
  [[nodiscard]] bool asks_at(const OwnOperation& operation, TimePoint now) const;
  void ask_whether_held(TimePoint now);
  [[nodiscard]] BlockedRank blocked_here(const OpKey& lacking, const std::vector<OpKey>& asked);
  void look_at(const OpKey& key);
  /// Fails operations that never end, and takes them out. Where some of them have waited since an
  /// earlier cycle was broken, only those: their ranks can then submit what the others went on to.
  void break_cycles(std::vector<StallFact>& facts, TimePoint now);
  /// Asks about these again, together with what holds them and what else their ranks stand still
  /// in; false where all of that has been asked about.
  bool look_further(const std::vector<StallFact>& facts);
  void fail_early(const OpKey& key, Collective kind, Code code, const std::string& text);

  const NegotiatorOptions options_;
  const TreePlace place_;
  ResponseCache cache_;
  OwnOperations own_;
  Aggregator aggregator_;
  FrameReader reader_;
  FrameWriter writer_;
  NegotiatorStats stats_;

  std::uint64_t sequence_ = 0;        // the last batch applied
  std::vector<std::uint64_t> acked_;  // by source: the last batch it has processed
  std::uint64_t unnamed_ = 0;         // this rank's unnamed submissions since the last join
  std::uint64_t join_ticket_ = 0;     // not 0: this rank has joined
  TickFrame draft_;                   // what the next tick will say
  bool has_draft_ = false;
  bool told_joined_ = false;  // the parent knows that this subtree has joined
  BatchFrame building_;       // root: the batch in the making
  std::size_t building_bytes_ = 0;
  Batch built_;      // root: what it means here
  Completed ready_;  // root: what that batch is made from

  // Operations that failed before all had submitted them: the batch that said so, for reports that
  // crossed it; and what this rank will hear when it submits them after all.
  std::unordered_map<OpKey, std::uint64_t, OpKeyHash> failed_;
  std::unordered_map<OpKey, Status, OpKeyHash> owed_;

  Status closed_;  // not ok: a rank has left, and nothing is agreed any more

  TimePoint deadline_ = kForever;
  StallQuery query_;
  std::uint64_t last_query_ = 0;
  std::vector<OpKey> overdue_;  // root: for the next query
  std::vector<OpKey> asked_;    // root: in the last one
  int further_ = 0;             // root: queries in a row that looked further
  TimePoint broken_{};          // root: when a cycle was last broken
  std::unordered_map<OpKey, TimePoint, OpKeyHash>
      last_noted_;  // root: when it was last asked about

  std::vector<OutFrame> frames_;
  std::vector<Batch> batches_;
  std::vector<std::string> warnings_;
};

}  // namespace ronde
