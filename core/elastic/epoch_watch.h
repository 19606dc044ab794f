// Watches one epoch: for changes of its workers, for members that others have lost, and for members
// that keep the next one from beginning.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/elastic/roster.h"

namespace ronde::elastic {

/// Decides when something must be done about an epoch. Threads: one.
class EpochWatch {
 public:
  /// Joiners that come within this time of each other share one epoch.
  static constexpr std::chrono::seconds kJoinWindow{1};
  /// Suspects may become ready for so long.
  static constexpr std::chrono::seconds kGrace{1};
  /// Most steps have ended by then.
  static constexpr std::chrono::seconds kPatience{10};

  /// The change for which a running epoch should end, once it is due; then nothing more.
  [[nodiscard]] std::optional<Change> change(const Roster& roster, EpochId epoch, TimePoint time);

  /// Others have lost these members of an epoch that has failed.
  void suspect(const std::vector<WorkerId>& suspects) {
    suspects_.insert(suspects.begin(), suspects.end());
  }
  /// True if suspects alone have been missing for the grace: they are frozen or cut off. A suspect
  /// that lives may still become ready.
  [[nodiscard]] bool suspects_are_lost(const Roster& roster, TimePoint time);

  /// The sentence that tells people for whom the next epoch waits: once, when patience is over.
  /// `closing`: some member of the epoch has ended, or is ready again.
  [[nodiscard]] std::optional<std::string> delay(const Roster& roster, EpochId epoch, bool closing,
                                                 TimePoint time);

  /// When to look again, after `time`; kForever where nothing comes due.
  [[nodiscard]] TimePoint next_deadline(TimePoint time) const noexcept;

 private:
  [[nodiscard]] bool joiners_are_due(bool waiting, bool more_come, TimePoint time);

  std::set<WorkerId> suspects_;
  bool changes_ = false;  // that was told
  bool has_told_of_delay_ = false;
  // kForever: not so.
  TimePoint joiner_since_ = kForever;    // the first joiner has waited
  TimePoint suspects_since_ = kForever;  // suspects alone have been missing
  TimePoint delayed_since_ = kForever;   // the next epoch has waited
};

}  // namespace ronde::elastic
