#include "core/elastic/epoch_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace ronde::elastic {
namespace {

using State = RosterWorker::State;

std::string workers_text(std::size_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

Verdict failed(int exit_status, std::string text) {
  return {Verdict::Kind::kFail, std::move(text), exit_status};
}

bool state_is_lost(const EpochPolicy::Takers& takers, const JobFacts& job) {
  return job.state_exists && std::ranges::none_of(takers, [](const Roster::Entry* entry) {
           return entry->second.holds_state || entry->second.ready.can_resume;
         });
}

CopyStep newest_inherited(const EpochPolicy::Takers& takers) {
  CopyStep newest = kNoCopy;
  for (const Roster::Entry* entry : takers) newest = std::max(newest, entry->second.inherited);
  return newest;
}

}  // namespace

bool EpochPolicy::awaits_starters(const Roster& workers, const JobFacts& job,
                                  TimePoint time) const {
  if (job.epoch > 0 && !job.cause.empty()) return false;
  return time - started_ < options_.start_timeout &&
         std::ranges::any_of(workers, [&](const Roster::Entry& entry) {
           return entry.second.state == State::kStarting &&
                  (job.epoch == 0 || entry.second.awaited);
         });
}

EpochPolicy::Takers EpochPolicy::takers(Roster& workers,
                                        const std::vector<std::string>& hosts) const {
  Takers ready = workers.ready_in_order(hosts);
  const auto most = static_cast<std::size_t>(options_.max_workers);
  if (most > 0 && ready.size() > most) ready.resize(most);
  return ready;
}

Verdict EpochPolicy::judge(const Roster& workers, const Takers& takers, const JobFacts& job,
                           TimePoint time) {
  const bool lost = state_is_lost(takers, job);
  if (job.nobody_comes && lost) return failed(job.last_failure.exit_status, job.last_failure.text);
  if (Verdict number = judge_number(workers, takers.size(), job, time);
      number.kind != Verdict::Kind::kBegin) {
    return number;
  }
  if (awaits_copies(workers, takers, job, time)) return {Verdict::Kind::kWait, {}};
  if (lost) {
    return failed(job.last_failure.exit_status,
                  fmt::format("every worker that held the state has ended; the last: {}",
                              job.last_failure.text));
  }
  if (options_.reset_limit >= 0 && job.epoch > static_cast<EpochId>(options_.reset_limit)) {
    return failed(1, fmt::format("the job was reset {} times (--reset-limit); the last cause: {}",
                                 options_.reset_limit, job.cause));
  }
  return {};
}

/// Says what is waited for, once; fails after the elastic timeout.
Verdict EpochPolicy::judge_number(const Roster& workers, std::size_t ready, const JobFacts& job,
                                  TimePoint time) {
  const auto least = static_cast<std::size_t>(std::max(1, options_.min_workers));
  if (ready >= least) {
    waiting_since_ = kForever;
    return {};
  }
  const bool was_waiting = waiting_since_ != kForever;
  waiting_since_ = std::min(waiting_since_, time);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.elastic_timeout);
  if (time - waiting_since_ >= options_.elastic_timeout) {
    return failed(1, fmt::format("{} of at least {} ready after {} s (--elastic-timeout); {}",
                                 workers_text(ready), least, seconds.count(),
                                 job.cause.empty() ? "no host has room for more" : job.cause));
  }
  Verdict wait{Verdict::Kind::kWait, {}};
  if (!was_waiting && (job.epoch > 0 || workers.count(State::kStarting) == 0)) {
    wait.text =
        fmt::format("waiting for {} more, up to {} s: {} of at least {} ready",
                    workers_text(least - ready), seconds.count(), workers_text(ready), least);
  }
  return wait;
}

/// True if no ready worker holds the state, while workers that start, or will, may have newer
/// copies than ready ones.
bool EpochPolicy::awaits_copies(const Roster& workers, const Takers& takers, const JobFacts& job,
                                TimePoint time) {
  const bool held = std::ranges::any_of(
      takers, [](const Roster::Entry* entry) { return entry->second.holds_state; });
  if (!job.state_exists || held) {
    unheld_since_ = coming_since_ = kForever;
    return false;
  }
  unheld_since_ = std::min(unheld_since_, time);
  if (time - unheld_since_ >= options_.elastic_timeout) return false;
  if (job.copy_to_come > newest_inherited(takers)) {
    coming_since_ = kForever;
    return true;
  }
  if (workers.count(State::kStarting) == 0) return false;
  coming_since_ = std::min(coming_since_, time);
  return time - coming_since_ < options_.start_timeout;
}

TimePoint EpochPolicy::next_deadline(TimePoint time) const {
  TimePoint next = kForever;
  const auto consider = [&](TimePoint since, Duration limit) {
    if (since != kForever && since + limit > time) next = std::min(next, since + limit);
  };
  consider(started_, options_.start_timeout);
  consider(waiting_since_, options_.elastic_timeout);
  consider(unheld_since_, options_.elastic_timeout);
  consider(coming_since_, options_.start_timeout);
  return next;
}

}  // namespace ronde::elastic
