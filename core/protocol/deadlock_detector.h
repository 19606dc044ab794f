// Deadlocks: ranks that wait for each other.
//
// A rank is blocked by an operation of its own (see BlocksUntilDone) or declares itself blocked. It
// has the root ask all ranks about that operation. Each rank answers which operation blocks it, and
// names some others that do. The root asks about those too, until one query covers all of them.
// Then all operations of a cycle fail together, so no rank goes on while another still waits.
//
// The answers stay true. A rank that lacks an operation submits it only after the operation that it
// named has ended. So no operation of a cycle ends. A rank that is blocked later closes another
// cycle with newer operations. Then its operation fails alone, and the others end once it goes on.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/protocol/frames.h"
#include "core/protocol/own_operations.h"

namespace ronde {

/// Detects cycles of blocked ranks from the answers to stall queries. Threads: one at a time.
class DeadlockDetector {
 public:
  /// `watch`: how long an operation may block its rank before a check; zero: for ever. `own`
  /// outlives it.
  DeadlockDetector(int rank, Duration watch, const OwnOperations& own)
      : rank_(rank), watch_(watch), own_(own) {}

  // Events of this rank.

  /// This rank submitted an operation at `now`.
  void submitted(const Request& request, TimePoint now) {
    if (request.blocks == BlocksUntilDone::kNothing || watch_ <= Duration::zero()) return;
    deadline_ = std::min(deadline_, now + watch_);
  }
  [[nodiscard]] TimePoint next_deadline() const noexcept { return deadline_; }
  /// The oldest operation that is due for a check; none before next_deadline().
  std::vector<Overdue> on_time(TimePoint now);
  /// As Negotiator::declare_blocked. Returns the operations to ask about.
  std::vector<Overdue> declare_blocked(std::span<const std::uint64_t> tickets,
                                       const BlockedFlag& blocked);
  /// Names the operation that blocks this rank in the facts about operations that it lacks.
  void complete_facts(std::vector<StallFact>& facts, const std::vector<OpKey>& asked) const;

  // The root.

  /// A query about these operations has begun.
  void query_began(const std::vector<OpKey>& keys) { asked_ = keys; }
  /// The result of a query.
  struct Finding {
    std::vector<OpKey> ask;           ///< Not empty: judge after a query about these.
    std::vector<BatchItem> failures;  ///< Operations to fail. Their facts are removed.
  };
  Finding examine(std::vector<StallFact>& facts, TimePoint now);

 private:
  [[nodiscard]] bool is_due(const OwnOperation& operation, TimePoint now) const;
  [[nodiscard]] bool blocks(const OwnOperation& operation, const OpKey& key) const;
  [[nodiscard]] BlockedRank blocked_here(const OpKey& lacking,
                                         const std::vector<OpKey>& asked) const;
  /// Operations to ask about in another query; none if all were in the last one.
  std::vector<OpKey> further(const std::vector<StallFact>& facts);
  /// Fails operations that never end. If some have waited since before the last cycle was broken,
  /// only those fail: their ranks can then submit what the others wait for.
  std::vector<BatchItem> break_cycles(std::vector<StallFact>& facts, TimePoint now);

  const int rank_;
  const Duration watch_;
  const OwnOperations& own_;
  TimePoint deadline_ = kForever;
  TimePoint checked_ = TimePoint::min();  // operations submitted until then have been checked
  std::unordered_map<std::uint64_t, BlockedFlag> declared_;  // by ticket
  std::vector<OpKey> asked_;                                 // in the last query
  int queries_ = 0;                                          // in a row that asked further
  TimePoint broken_{};                                       // when a cycle was last broken
};

}  // namespace ronde
