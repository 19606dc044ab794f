// Operations that do not end: they are late, or blocked for certain.
//
// Late: each rank reports its overdue operations to the root. The root asks all ranks which of them
// lack those operations, one query at a time. Then it warns, or fails them.
//
// Blocked: a rank is blocked by an operation of its own (see BlocksUntilDone) or declares itself
// blocked. It has the root ask all ranks about that operation. Each rank answers which operation
// blocks it, and names some others that do. The root asks about those too, until one query covers
// all of them. Then all operations of a cycle fail together, so no rank goes on while another still
// waits. The answers stay true: a rank that lacks an operation submits it only after the operation
// that it named has ended. So no operation of a cycle ends. A rank that is blocked later closes
// another cycle with newer operations. Then its operation fails alone, and the others end once it
// goes on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/protocol/frames.h"
#include "core/protocol/own_operations.h"

namespace ronde {

/// Watches the operations of one process set, as one rank of its tree. Threads: one at a time.
class OperationWatch {
 public:
  /// `rank`: of the job. `cycle`: after so long, an operation that blocks its rank is checked;
  /// zero: never. `own` outlives it.
  OperationWatch(int rank, const StallLimits& limits, Duration cycle, OwnOperations& own)
      : rank_(rank), limits_(limits), cycle_(cycle), own_(own) {}

  // This rank. What these return goes to the root.

  /// This rank submitted an operation at `now`; `own` has it.
  void submitted(const Request& request, TimePoint now);
  /// This rank's operations that are overdue, or due for a check. Nothing before next_deadline().
  std::vector<Overdue> on_time(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const noexcept {
    return own_.size() == 0 ? kForever : std::min(late_deadline_, cycle_deadline_);
  }
  /// As Member::declare_blocked. Returns the operations to ask about.
  std::vector<Overdue> declare_blocked(std::span<const std::uint64_t> tickets,
                                       const BlockedFlag& blocked);

  // The query on its way through this subtree: down to every rank, and the joined answers up.

  /// Starts with the facts of this rank. `children` answers must follow.
  void begin(const QueryFrame& query, std::vector<StallFact> own, std::size_t children);
  /// True if a query is under way.
  [[nodiscard]] bool asks() const noexcept { return query_ != 0; }
  /// True if child number `child` still owes an answer to `query`.
  [[nodiscard]] bool expects(std::size_t child, std::uint64_t query) const;
  /// Takes in the answer of a child that owes one. Ignores facts about other operations.
  void answer(std::size_t child, const std::vector<StallFact>& facts);
  /// True once all children have answered.
  [[nodiscard]] bool answered() const noexcept { return asks() && awaited_ == 0; }
  /// Ends the query: its number, and all facts with missing ranks ascending.
  std::pair<std::uint64_t, std::vector<StallFact>> finish();

  // The root.

  /// Enters an overdue operation, unless it was asked about a moment ago.
  void note(const Overdue& overdue, TimePoint now);
  /// The next query, if one is due and none is under way.
  std::optional<QueryFrame> next_query();
  /// The decision about the facts of one query.
  struct Verdict {
    std::vector<BatchItem> failures;
    std::vector<std::string> warnings;
  };
  /// Judges operations that lack some rank: first cycles, then the time that the others have
  /// waited. Nothing where more must be asked first; the next query does.
  Verdict judge(std::vector<StallFact> facts, TimePoint now);
  /// True if settled() has anything to do.
  [[nodiscard]] bool has_open_questions() const noexcept {
    return asks() || !last_noted_.empty() || !ask_.empty();
  }
  /// The operation was agreed or has failed.
  void settled(const OpKey& key);

 private:
  void add_late(TimePoint now, std::vector<Overdue>& found);
  void add_blocking(TimePoint now, std::vector<Overdue>& found);
  [[nodiscard]] bool blocks(const OwnOperation& operation, const OpKey& key) const;
  [[nodiscard]] BlockedRank blocked_here(const OpKey& lacking,
                                         const std::vector<OpKey>& asked) const;
  void ask_about(const OpKey& key);
  bool ask_further(const std::vector<StallFact>& facts);
  std::vector<BatchItem> break_cycles(std::vector<StallFact>& facts, TimePoint now);
  void judge_time(const StallFact& fact, Verdict& verdict) const;

  const int rank_;
  const StallLimits limits_;
  const Duration cycle_;
  OwnOperations& own_;
  // This rank.
  TimePoint late_deadline_ = kForever;
  TimePoint cycle_deadline_ = kForever;
  TimePoint checked_ = TimePoint::min();  // operations submitted until then have been checked
  std::unordered_map<std::uint64_t, BlockedFlag> declared_;  // by ticket
  // The query.
  std::uint64_t query_ = 0;  // 0: none
  std::vector<StallFact> facts_;
  std::vector<bool> has_answered_;
  std::size_t awaited_ = 0;
  // The root.
  std::uint64_t last_query_ = 0;
  std::vector<OpKey> ask_;                                      // in the next query
  std::vector<OpKey> asked_;                                    // in the last one
  std::unordered_map<OpKey, TimePoint, OpKeyHash> last_noted_;  // when last asked about
  int further_ = 0;                                             // queries in a row that asked more
  TimePoint broken_{};                                          // when a cycle was last broken
};

}  // namespace ronde
