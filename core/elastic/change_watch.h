// Watches a running epoch for workers that wait to join, or are to leave.
#pragma once

#include <chrono>
#include <optional>

#include "core/base/clock.h"
#include "core/elastic/roster.h"

namespace ronde::elastic {

/// Decides when one epoch should end for a change of its workers, at most once. Threads: one.
class ChangeWatch {
 public:
  /// Joiners that come within this time of each other share one epoch.
  static constexpr std::chrono::seconds kJoinWindow{1};

  /// The change, once it is due; then nothing more.
  [[nodiscard]] std::optional<Change> due(const Roster& roster, EpochId epoch, TimePoint time);
  /// The first joiner has waited since then; kForever without one.
  [[nodiscard]] TimePoint since() const noexcept { return joiner_since_; }

 private:
  [[nodiscard]] bool joiners_are_due(bool waiting, bool more_come, TimePoint time);

  bool told_ = false;
  TimePoint joiner_since_ = kForever;
};

}  // namespace ronde::elastic
