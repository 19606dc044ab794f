// Batches: the operations that all ranks agree to run, in one order. The root makes them. Every
// rank, the root included, applies the same batches in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/protocol/matching.h"
#include "core/protocol/stall_watch.h"

namespace ronde {

/// Counts of the negotiation, for tests, doctor and metrics.
struct NegotiatorStats {
  std::uint64_t cached_agreements = 0;
  std::uint64_t full_agreements = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t evictions = 0;
  std::uint64_t payloads = 0;  ///< Agreements that brought their result with them.
};

/// Turns complete operations into batches of agreed ones. Threads: one at a time.
class Batcher {
 public:
  /// Sends a batch to all children. Not called where there are none.
  using Send = std::function<void(const BatchFrame&)>;
  /// The result of an operation whose data came with its report; empty for all others.
  using Combine = std::function<std::vector<std::byte>(const Report&)>;

  /// All references outlive it.
  Batcher(const TreePlace& place, NegotiationState& state, Matching& matching, StallWatch& stalls,
          Send send, Combine combine)
      : place_(place),
        cache_(state.cache),
        own_(state.own),
        aggregator_(state.aggregator),
        matching_(matching),
        stalls_(stalls),
        send_(std::move(send)),
        combine_(std::move(combine)) {}

  // The root.

  /// Makes batches of all complete operations, unless the set is closed.
  void agree();
  /// Adds a failed operation to the next batch.
  void fail(BatchItem failure) { append(std::move(failure)); }
  /// Sends the next batch, unless it is empty.
  void close_batch();
  /// Closes the set with a last batch.
  void close_set(int leaver, std::string_view why);
  /// As Negotiator::release and Negotiator::order_launch.
  void release(std::uint32_t bundles) {
    if (closed_.ok()) building_.released += bundles;
  }
  void order_launch(std::uint64_t set) {
    if (closed_.ok()) building_.launches.push_back(set);
  }

  // The other ranks.

  /// Errors: kInvalidArgument where the batch does not fit this rank's state.
  [[nodiscard]] Status check(const BatchFrame& batch) const;
  /// Applies a batch that was checked.
  void apply(const BatchFrame& batch);

  /// Appends the batches agreed since the last call.
  void take(std::vector<Batch>& out);
  /// The last batch applied.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  /// The error of a rank that has left, after which nothing is agreed; ok where none has.
  [[nodiscard]] const Status& closed() const noexcept { return closed_; }
  /// As Negotiator::waits_for_leaver. Only where a rank has left.
  [[nodiscard]] std::string waits_for_leaver(const Request& request) const;
  [[nodiscard]] const NegotiatorStats& stats() const noexcept { return stats_; }

 private:
  [[nodiscard]] Status check_item(const BatchItem& item, std::size_t& slots) const;
  [[nodiscard]] Status check_named_slot(const BatchItem& item) const;
  [[nodiscard]] std::int32_t priority_of(const Completed& ready, std::int32_t entry) const;
  void sort_by_priority(Completed& ready) const;
  [[nodiscard]] BatchItem decide(const Report& report) const;
  void name_request(const Report& report, BatchItem& item) const;
  void append(BatchItem item, std::int32_t priority = 0);
  void append_cached(int slot, std::int32_t priority);
  void apply_cached(int slot, std::uint64_t ordinal, Batch& out);
  void apply_entry(const BatchFrame& batch, std::size_t index, Batch& out);
  void apply_item(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_full(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_failure(const BatchItem& item, std::uint64_t sequence, Batch& out);
  void apply_join(int last_joined, Batch& out);
  void apply_leave(const BatchItem& closing, Batch& out);
  void settle(const OpKey& key);
  void finish(std::uint64_t sequence, Batch batch);

  const TreePlace& place_;
  ResponseCache& cache_;
  const OwnOperations& own_;
  Aggregator& aggregator_;
  Matching& matching_;
  StallWatch& stalls_;
  const Send send_;
  const Combine combine_;
  NegotiatorStats stats_;
  std::uint64_t sequence_ = 0;
  BatchFrame building_;  // the next batch
  std::size_t building_bytes_ = 0;
  Batch built_;      // the same, as this rank reads it
  Completed ready_;  // reused: the operations it is made from
  std::vector<Batch> batches_;
  Status closed_;
  bool left_in_order_ = false;  // the rank that left gave no reason
};

}  // namespace ronde
