// Watches an epoch that has failed for members that the others have lost.
#pragma once

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include "core/base/clock.h"
#include "core/elastic/roster.h"

namespace ronde::elastic {

/// The suspects of one epoch. A suspect that lives may still become ready; if suspects alone are
/// missing for a grace, they are frozen or cut off. Threads: one.
class SuspectWatch {
 public:
  static constexpr std::chrono::seconds kGrace{1};

  void add(const std::vector<WorkerId>& suspects) {
    suspects_.insert(suspects.begin(), suspects.end());
  }
  /// True if all members that are left are suspects, and the grace is over.
  [[nodiscard]] bool due(const Roster& roster, TimePoint time) {
    if (!roster.members_are_among(suspects_)) {
      since_ = kForever;
      return false;
    }
    since_ = std::min(since_, time);
    return time - since_ >= kGrace;
  }
  /// The grace began then; kForever if it has not.
  [[nodiscard]] TimePoint since() const noexcept { return since_; }

 private:
  std::set<WorkerId> suspects_;
  TimePoint since_ = kForever;
};

}  // namespace ronde::elastic
