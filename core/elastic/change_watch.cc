#include "core/elastic/change_watch.h"

#include <algorithm>

namespace ronde::elastic {

std::optional<Change> ChangeWatch::due(const Roster& roster, EpochId epoch, TimePoint time) {
  if (told_) return std::nullopt;
  bool waiting = false, leaving = false, more_come = false, awaited = false, taken_over = false;
  for (const auto& [id, worker] : roster) {
    leaving |= worker.state == RosterWorker::State::kMember && worker.leaving();
    waiting |= worker.state == RosterWorker::State::kReady && worker.ready.last_epoch != epoch;
    more_come |= worker.state == RosterWorker::State::kStarting;
    awaited |= worker.state == RosterWorker::State::kStarting && worker.awaited;
    taken_over |= worker.state != RosterWorker::State::kStarting && worker.stays();
  }
  // Who alone could go on is not interrupted before others can.
  leaving = leaving && (taken_over || !more_come);
  const bool joining = awaited || joiners_are_due(waiting, more_come, time);
  told_ = joining || leaving;
  if (!told_) return std::nullopt;
  if (joining && leaving) return Change::kMixed;
  return joining ? Change::kAdded : Change::kRemoved;
}

bool ChangeWatch::joiners_are_due(bool waiting, bool more_come, TimePoint time) {
  if (!waiting) {
    joiner_since_ = kForever;
    return false;
  }
  joiner_since_ = std::min(joiner_since_, time);
  return !more_come || time - joiner_since_ >= kJoinWindow;
}

}  // namespace ronde::elastic
