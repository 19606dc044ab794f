// Stalls: operations that wait for too long. Each rank reports its overdue operations to the root.
// The root asks all ranks which of them lack those operations. Then it warns, or fails them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/frames.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/stall_query.h"

namespace ronde {

/// The root's decision about the facts of one query.
struct StallVerdict {
  std::vector<BatchItem> failures;
  std::vector<std::string> warnings;
};

/// Watches the time that operations wait. Threads: one at a time.
class StallWatch {
 public:
  /// A limit of zero is never reached. `own` outlives it.
  StallWatch(Duration warning, Duration error, OwnOperations& own)
      : warning_(warning), error_(error), own_(own) {}

  /// This rank submitted an operation at `now`; `is_only`: nothing else is in flight.
  void submitted(TimePoint now, bool is_only);
  [[nodiscard]] TimePoint next_deadline() const noexcept { return deadline_; }
  /// This rank's operations that are overdue. Nothing before next_deadline().
  std::vector<Overdue> on_time(TimePoint now);

  // The root.

  /// Enters an overdue operation, unless it was asked about a moment ago.
  void note(const Overdue& overdue, TimePoint now);
  /// Enters an operation for the next query.
  void ask_about(const OpKey& key);
  /// The next query, if one is due and none is under way.
  std::optional<QueryFrame> next_query();
  /// Judges operations by how long they have waited.
  [[nodiscard]] StallVerdict judge(const std::vector<StallFact>& facts) const;

  /// Whether settled() has anything to do.
  [[nodiscard]] bool has_open_questions() const noexcept {
    return query_.active() || !last_noted_.empty() || !overdue_.empty();
  }
  /// The operation was agreed or has failed.
  void settled(const OpKey& key);

  /// The query on its way through this subtree.
  [[nodiscard]] StallQuery& query() noexcept { return query_; }
  [[nodiscard]] const StallQuery& query() const noexcept { return query_; }

 private:
  [[nodiscard]] TimePoint due(const OwnOperation& operation) const;

  const Duration warning_;
  const Duration error_;
  OwnOperations& own_;
  TimePoint deadline_ = kForever;
  StallQuery query_;
  std::uint64_t last_query_ = 0;
  std::vector<OpKey> overdue_;                                  // for the next query
  std::unordered_map<OpKey, TimePoint, OpKeyHash> last_noted_;  // when last asked about
};

}  // namespace ronde
