// Finds operations that do not end: their data has moved for longer than the stall limits allow, or
// they wait for an agreement and nobody warns of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/engine/records/operation_ring.h"
#include "core/protocol/lateness.h"

namespace ronde {

/// An operation that has run for too long.
struct LateRecord {
  OperationRecord record;    ///< The first of those that move as one.
  std::size_t others = 0;    ///< The number of the rest.
  std::int64_t late_ns = 0;  ///< Time since its start, or since its submission.
  bool over_limit = false;   ///< The error limit has passed, too.
};

/// Looks at the flight recorder from time to time. Threads: one at a time.
class RecordWatch {
 public:
  /// It watches from `now` on.
  RecordWatch(const StallLimits& limits, TimePoint now) : limits_(limits), next_look_(after(now)) {}

  /// When look() is due; kForever without limits.
  [[nodiscard]] TimePoint next_look() const noexcept { return next_look_; }
  /// The operations that are late now, by number. Each comes again after another warning limit.
  std::vector<LateRecord> look(const OperationRing& ring, TimePoint now);
  /// The negotiation has warned of a stall, so it works: its own warnings will go on.
  void negotiation_warned(TimePoint now) noexcept { warned_ = now; }

 private:
  [[nodiscard]] std::int64_t late_since(const OperationRecord& record, TimePoint now) const;
  [[nodiscard]] std::vector<LateRecord> waiting(const OperationRing& ring, TimePoint now) const;
  [[nodiscard]] TimePoint after(TimePoint now) const;

  const StallLimits limits_;
  TimePoint next_look_;
  TimePoint warned_{};
  std::unordered_map<std::uint64_t, Lateness> known_;  // by the number of the record
};

}  // namespace ronde
