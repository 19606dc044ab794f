// Finds ranks that wait for each other. A rank whose operation blocks it (see BlocksUntilDone), or
// that declares itself blocked, has the root ask about that operation. Every rank answers which
// operation blocks it, and some others that do; the root asks about those too, until one query has
// shown all of them. Then all operations of a cycle fail together, so that no rank goes on while
// another still waits. The answers stay true: a rank that has not submitted an operation by its
// answer does not submit it before the operation that it named has ended, so nothing in a cycle
// ends. A rank that is blocked only later closes another cycle, with operations that the others
// have submitted since: then its operation fails alone, and theirs end once it goes on.
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
  /// `watch`: after which an operation that blocks its rank is checked; zero: never. `own` outlives
  /// it.
  DeadlockDetector(int rank, Duration watch, const OwnOperations& own)
      : rank_(rank), watch_(watch), own_(own) {}

  // Events of this rank.

  /// This rank submitted an operation at `now`.
  void submitted(const Request& request, TimePoint now) {
    if (request.blocks == BlocksUntilDone::kNothing || watch_ <= Duration::zero()) return;
    deadline_ = std::min(deadline_, now + watch_);
  }
  [[nodiscard]] TimePoint next_deadline() const noexcept { return deadline_; }
  /// The oldest of the operations that are due for a check; none before next_deadline().
  std::vector<Overdue> on_time(TimePoint now);
  /// As Negotiator::declare_blocked; gives the operations to ask about.
  std::vector<Overdue> declare_blocked(std::span<const std::uint64_t> tickets,
                                       const BlockedFlag& blocked);
  /// Adds to facts about operations that this rank lacks which operation blocks it.
  void complete_facts(std::vector<StallFact>& facts, const std::vector<OpKey>& asked) const;

  // The root.

  /// A query about these operations has begun.
  void query_began(const std::vector<OpKey>& keys) { asked_ = keys; }
  /// What follows from the answers.
  struct Finding {
    std::vector<OpKey> ask;           ///< Not empty: all is judged after a query about these.
    std::vector<BatchItem> failures;  ///< Their facts are taken out.
  };
  Finding examine(std::vector<StallFact>& facts, TimePoint now);

 private:
  [[nodiscard]] bool is_due(const OwnOperation& operation, TimePoint now) const;
  [[nodiscard]] bool blocks(const OwnOperation& operation, const OpKey& key) const;
  [[nodiscard]] BlockedRank blocked_here(const OpKey& lacking,
                                         const std::vector<OpKey>& asked) const;
  /// Operations to ask about in a further query; none where all have been asked about.
  std::vector<OpKey> further(const std::vector<StallFact>& facts);
  /// Fails operations that never end. Where some have waited since the last cycle was broken, only
  /// those: their ranks can then submit what the others went on to.
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
