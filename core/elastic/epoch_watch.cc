#include "core/elastic/epoch_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/base/join_text.h"

namespace ronde::elastic {
namespace {

constexpr std::size_t kMostNamed = 8;

/// "worker 3", "workers 3, 4 and 5", "workers 1, 2, 3, 4, 5, 6, 7, 8 and 20 more".
std::string names_of(const std::vector<WorkerId>& workers) {
  if (workers.size() == 1) return fmt::format("worker {}", workers.front());
  const std::size_t named = std::min(workers.size() - 1, kMostNamed);
  const std::string last = workers.size() - named == 1
                               ? fmt::format("{}", workers.back())
                               : fmt::format("{} more", workers.size() - named);
  return fmt::format("workers {} and {}", join_text(std::span(workers).first(named), ", "), last);
}

}  // namespace

std::optional<Change> EpochWatch::change(const Roster& roster, EpochId epoch, TimePoint time) {
  if (changes_) return std::nullopt;
  bool waiting = false, leaving = false, more_come = false, awaited = false, taken_over = false;
  for (const auto& [id, worker] : roster) {
    leaving |= worker.state == RosterWorker::State::kMember && worker.leaving();
    waiting |= worker.state == RosterWorker::State::kReady && worker.ready.last_epoch != epoch;
    more_come |= worker.state == RosterWorker::State::kStarting;
    awaited |= worker.state == RosterWorker::State::kStarting && worker.awaited;
    taken_over |= worker.state != RosterWorker::State::kStarting && worker.stays();
  }
  // The only worker that can go on is not interrupted before others can.
  leaving = leaving && (taken_over || !more_come);
  const bool joining = awaited || joiners_are_due(waiting, more_come, time);
  changes_ = joining || leaving;
  if (!changes_) return std::nullopt;
  if (joining && leaving) return Change::kMixed;
  return joining ? Change::kAdded : Change::kRemoved;
}

bool EpochWatch::joiners_are_due(bool waiting, bool more_come, TimePoint time) {
  if (!waiting) {
    joiner_since_ = kForever;
    return false;
  }
  joiner_since_ = std::min(joiner_since_, time);
  return !more_come || time - joiner_since_ >= kJoinWindow;
}

bool EpochWatch::suspects_are_lost(const Roster& roster, TimePoint time) {
  if (!roster.members_are_among(suspects_)) {
    suspects_since_ = kForever;
    return false;
  }
  suspects_since_ = std::min(suspects_since_, time);
  return time - suspects_since_ >= kGrace;
}

std::optional<std::string> EpochWatch::delay(const Roster& roster, EpochId epoch, bool closing,
                                             TimePoint time) {
  const std::vector<WorkerId> members = roster.members();
  const bool waits = closing && !members.empty();
  delayed_since_ = waits ? std::min(delayed_since_, time) : kForever;
  if (has_told_of_delay_ || !waits) return std::nullopt;
  if (time - delayed_since_ < kPatience) return std::nullopt;
  has_told_of_delay_ = true;
  return fmt::format("epoch {} has ended, but {} {} not noticed for {} s: the next epoch waits",
                     epoch, names_of(members), members.size() == 1 ? "has" : "have",
                     kPatience.count());
}

TimePoint EpochWatch::next_deadline(TimePoint time) const noexcept {
  TimePoint next = kForever;
  const auto consider = [&](TimePoint since, Duration limit) {
    if (since != kForever && since + limit > time) next = std::min(next, since + limit);
  };
  consider(joiner_since_, kJoinWindow);
  consider(suspects_since_, kGrace);
  if (!has_told_of_delay_) consider(delayed_since_, kPatience);
  return next;
}

}  // namespace ronde::elastic
