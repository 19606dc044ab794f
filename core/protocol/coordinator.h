// The agreement of all ranks on the operations of one process set, seen from one node of its tree.
//
// An operation that the whole subtree has submitted goes into the tick for the parent. At the root
// all ranks are ready then: it makes batches, which every rank applies in the same order. A bit in
// a tick stands for the request that its slot held in the last batch that the sender acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ports/reduce_kernels.h"
#include "core/protocol/aggregator.h"
#include "core/protocol/frames.h"
#include "core/protocol/member.h"
#include "core/protocol/operation_watch.h"
#include "core/protocol/tree.h"
#include "core/protocol/wire.h"

namespace ronde {

/// Counts of the negotiation, for tests, doctor and metrics.
struct NegotiatorStats {
  std::uint64_t cached_agreements = 0;
  std::uint64_t full_agreements = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t evictions = 0;
  std::uint64_t payloads = 0;  ///< Agreements that brought their result with them.
};

/// Turns what the ranks of one subtree submit into batches of agreed operations.
/// Threads: one at a time.
class Coordinator {
 public:
  /// `payloads`: as NegotiatorOptions has it. All outlive it.
  Coordinator(const TreePlace& place, Member& member, OperationWatch& watch,
              const PayloadReducer* payloads);

  // This rank.

  /// Enters what this rank has submitted, or that it has joined.
  void submitted(Announcement&& told);
  void joined();
  /// A rank of the subtree leaves.
  void leave(int rank, std::string_view why);

  // Ticks of child number `source`, from 1.

  /// Errors: kInvalidArgument where it does not fit what was agreed; nothing has changed.
  [[nodiscard]] Status check(const TickFrame& tick, int source) const;
  /// Takes over the bits, reports and notices of a tick that was checked; then who has joined or
  /// leaves; and in the end forgets what no child can refer to any more.
  void take_reports(TickFrame& tick, int source);
  void take_changes(const TickFrame& tick, int source);
  void forget_acked();

  // The root.

  /// Makes batches of all complete operations, unless the set is closed.
  void agree();
  /// Adds a failed operation to the next batch.
  void fail(BatchItem failure) { append(std::move(failure)); }
  /// Sends the next batch, unless it is empty.
  void close_batch();
  /// As Negotiator::release and Negotiator::order_launch.
  void release(std::uint32_t bundles) {
    if (closed_.ok()) building_.released += bundles;
  }
  void order_launch(std::uint64_t set) {
    if (closed_.ok()) building_.launches.push_back(set);
  }

  // The other ranks.

  /// Applies a batch of the parent and passes it on; `frame` is the same, encoded.
  /// Errors: kInvalidArgument where it does not fit this rank's state.
  Status take(const BatchFrame& batch, std::span<const std::byte> frame);

  // Frames: ticks go up, all others down.

  /// For the parent.
  [[nodiscard]] NextTick& next_tick() noexcept { return next_tick_; }
  /// Sends a frame to all children.
  template <typename Frame>
  void send_down(const Frame& frame) {
    writer_.write(frame, [this](std::span<const std::byte> bytes) { forward(bytes); });
  }
  /// Sends a frame that is encoded to all children.
  void forward(std::span<const std::byte> frame);
  /// Appends the frames since the last call, in order, the tick last.
  void take_frames(std::vector<OutFrame>& out);

  /// Appends the batches agreed since the last call.
  void take_batches(std::vector<Batch>& out);
  /// True if the operation is complete in this subtree.
  [[nodiscard]] bool is_complete(const OpKey& key) const { return reports_.is_complete(key); }
  /// As Aggregator::last_use.
  [[nodiscard]] std::uint64_t last_use(const OpKey& key) const { return reports_.last_use(key); }
  /// The error of a rank that has left, after which nothing is agreed; ok where none has.
  [[nodiscard]] const Status& closed() const noexcept { return closed_; }
  /// As Negotiator's functions of these names. waits_for_leaver(): only once a rank has left.
  [[nodiscard]] std::string waits_for_leaver(const Request& request) const;
  [[nodiscard]] std::vector<std::string> describe_pending() const;
  [[nodiscard]] const NegotiatorStats& stats() const noexcept { return stats_; }

 private:
  static constexpr int kSelf = 0;  // the aggregator's source number of this rank

  [[nodiscard]] Status check_bits(const TickFrame& tick) const;
  void take_bits_one_by_one(const TickFrame& tick, int source);
  void take_notice(int source, const Notice& notice);
  [[nodiscard]] bool has_failed_since(const OpKey& key, std::uint64_t acked) const;
  void report_completed();
  void send_up();

  [[nodiscard]] std::int32_t priority_of(const Completed& ready, std::int32_t entry) const;
  void sort_by_priority(Completed& ready) const;
  [[nodiscard]] BatchItem decide(const Report& report) const;
  void name_request(const Report& report, BatchItem& item) const;
  void append(BatchItem item, std::int32_t priority = 0);
  void append_cached(int slot, std::int32_t priority);
  void close_set(int leaver, std::string_view why);

  [[nodiscard]] Status check(const BatchFrame& batch) const;
  [[nodiscard]] Status check_item(const BatchItem& item, std::size_t& slots) const;
  [[nodiscard]] Status check_named_slot(const BatchItem& item) const;
  void apply(const BatchFrame& batch);
  void apply_entry(const BatchFrame& batch, std::size_t index, Batch& out);
  void apply_cached(int slot, std::uint64_t ordinal, Batch& out);
  void apply_item(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_full(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_failure(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_join(int last_joined, Batch& out);
  void apply_leave(const BatchItem& closing, Batch& out);
  void settle(const OpKey& key);
  void finish(std::uint64_t sequence, Batch batch);

  const TreePlace& place_;
  Member& member_;
  ResponseCache& cache_;  // the member's
  OperationWatch& watch_;
  const PayloadReducer* const payloads_;
  // The subtree.
  Aggregator reports_;  // which of its sources are ready
  NextTick next_tick_;
  std::vector<std::uint64_t> acked_;  // by source: the last batch it has processed
  bool reported_join_ = false;        // the parent knows that this subtree has joined
  /// Operations that failed before all ranks had submitted them, with the batch of the failure: for
  /// reports that crossed it.
  std::unordered_map<OpKey, std::uint64_t, OpKeyHash> failed_;
  // The root.
  BatchFrame building_;  // the next batch
  std::size_t building_bytes_ = 0;
  Batch built_;      // the same, as this rank reads it
  Completed ready_;  // reused: the operations it is made from
  // All ranks.
  std::uint64_t sequence_ = 0;  // of the last batch applied
  std::vector<Batch> batches_;
  Status closed_;
  bool left_in_order_ = false;  // the rank that left gave no reason
  NegotiatorStats stats_;
  FrameWriter writer_;
  std::vector<OutFrame> frames_;
};

}  // namespace ronde
