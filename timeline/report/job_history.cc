#include "timeline/report/job_history.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "core/ports/event_sink.h"
#include "timeline/recording/epoch_recorder.h"

namespace ronde::report {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// "1,3,4".
std::vector<int> parse_workers(std::string_view text) {
  std::vector<int> workers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int worker = 0; at < end; ++at) {
    const auto [next, error] = std::from_chars(at, end, worker);
    if (error != std::errc()) break;
    workers.push_back(worker);
    at = next;
  }
  return workers;
}

bool has(const std::vector<int>& workers, int worker) {
  return std::ranges::find(workers, worker) != workers.end();
}

/// The facts that workers' traces have.
Epoch recorded_epoch(int number, const JobTrace& job) {
  Epoch epoch;
  epoch.number = number;
  epoch.begin_ns = kNever;
  for (const RankTrace& rank : job.ranks) {
    epoch.begin_ns = std::min(epoch.begin_ns, rank.first_ns);
    epoch.end_ns = std::max(epoch.end_ns, rank.last_ns);
    epoch.workers.push_back(rank.info.worker);
  }
  return epoch;
}

/// The moments of a transition, each the last one of all workers.
struct Moments {
  bool failed = false;
  std::int64_t left_ns = kNever;  ///< Of the first worker.
  std::int64_t ready_ns = 0;
  std::int64_t placed_ns = 0;
  std::int64_t connected_ns = 0;
  std::int64_t ended_ns = 0;
};

void take_part(const NamedSpan& span, const std::string& name, Moments& moments) {
  if (name == kRecoverySpan || name == kChangeSpan) {
    moments.failed |= name == kRecoverySpan;
    moments.left_ns = std::min(moments.left_ns, span.start_ns);
    moments.ended_ns = std::max(moments.ended_ns, span.end_ns);
  }
  if (name == kLeavePart) moments.ready_ns = std::max(moments.ready_ns, span.end_ns);
  if (name == kWaitPart) moments.placed_ns = std::max(moments.placed_ns, span.end_ns);
  if (name == kConnectPart) moments.connected_ns = std::max(moments.connected_ns, span.end_ns);
}

std::optional<Moments> moments_of(const JobTrace& job) {
  Moments moments;
  for (const RankTrace& rank : job.ranks) {
    for (const NamedSpan& span : rank.transitions) {
      take_part(span, job.names.text_of(span.name), moments);
    }
  }
  return moments.ended_ns > 0 ? std::optional(moments) : std::nullopt;
}

/// The work of one rank that is lost if its epoch fails at `failed_ns`.
void take_loss(const RankTrace& rank, std::int64_t begin_ns, std::int64_t failed_ns,
               Transition& transition) {
  std::int64_t committed_ns = begin_ns;
  for (const StepMark& commit : rank.commits) {
    if (commit.time_ns <= failed_ns) committed_ns = std::max(committed_ns, commit.time_ns);
  }
  transition.lost_ns = std::max(transition.lost_ns, failed_ns - committed_ns);
  const auto steps = std::ranges::count_if(rank.steps, [&](const StepMark& step) {
    return step.time_ns > committed_ns && step.time_ns <= failed_ns;
  });
  transition.lost_steps = std::max(transition.lost_steps, static_cast<std::uint64_t>(steps));
}

/// The failure that workers noticed at `noticed_ns`: the first death in the epoch, if that was
/// before.
std::int64_t failure_in(const Epoch& epoch, std::int64_t noticed_ns) {
  std::int64_t failed_ns = noticed_ns;
  for (const WorkerChange& change : epoch.changes) {
    const bool member =
        change.event == to_string(WorkerEvent::kDied) && has(epoch.workers, change.worker);
    if (member) failed_ns = std::min(failed_ns, change.time_ns);
  }
  return failed_ns;
}

Transition transition_of(const Moments& moments, const Epoch& before) {
  Transition transition;
  transition.failed = moments.failed;
  transition.start_ns = moments.failed ? failure_in(before, moments.left_ns) : moments.left_ns;
  std::int64_t at = transition.start_ns;
  const auto until = [&](std::int64_t ns) {
    const std::int64_t part = std::max<std::int64_t>(0, ns - at);
    at += part;
    return part;
  };
  transition.notice_ns = until(moments.left_ns);
  transition.leave_ns = until(moments.ready_ns);
  transition.wait_ns = until(moments.placed_ns);
  transition.connect_ns = until(moments.connected_ns);
  transition.first_ns = until(moments.ended_ns);
  return transition;
}

/// Adds the work that is lost of the workers that were in the epoch before and go on.
void add_losses(const Epoch& epoch, const Epoch& before, const JobTrace& trace_before,
                Transition& transition) {
  const bool marked = std::ranges::any_of(
      trace_before.ranks, [](const RankTrace& rank) { return !rank.commits.empty(); });
  if (!transition.failed || !marked) return;
  for (const RankTrace& rank : trace_before.ranks) {
    if (!has(epoch.workers, rank.info.worker)) continue;
    take_loss(rank, before.begin_ns, transition.start_ns, transition);
  }
}

void join_to(const Epoch& before, Epoch& epoch) {
  for (const int worker : epoch.workers) {
    if (!has(before.workers, worker)) epoch.joined.push_back(worker);
  }
}

}  // namespace

void LauncherEvents::take(const TraceEvent& event) {
  if (event.phase == 'B' && event.epoch > 0) {
    open_ = event.epoch;
    Epoch& epoch = epochs_[open_];
    epoch.number = open_;
    epoch.begin_ns = epoch.end_ns = event.at_ns;
    epoch.workers = parse_workers(event.workers);
    epoch.why = event.why;
    epoch.open = true;
  } else if (event.phase == 'E' && open_ > 0) {
    epochs_[open_].end_ns = event.at_ns;
    epochs_[open_].open = false;
    open_ = 0;
  } else if (event.phase == 'i' && event.worker > 0 && event.epoch > 0) {
    epochs_[event.epoch].changes.push_back(
        {event.worker, std::string(event.worker_event), std::string(event.why), event.at_ns});
  }
}

std::vector<Epoch> history_of(const LauncherEvents& launcher,
                              const std::map<int, JobTrace>& epochs) {
  std::map<int, Epoch> all = launcher.epochs();
  for (const auto& [number, job] : epochs) {
    if (number == 0) continue;
    const Epoch recorded = recorded_epoch(number, job);
    const auto [at, added] = all.try_emplace(number, recorded);
    if (!added && at->second.number == 0) at->second = recorded;
    if (at->second.open) at->second.end_ns = std::max(at->second.begin_ns, recorded.end_ns);
  }
  std::vector<Epoch> history;
  for (auto& [number, epoch] : all) {
    if (!history.empty()) {
      const Epoch& before = history.back();
      join_to(before, epoch);
      const auto job = epochs.find(number);
      const auto moments = job == epochs.end() ? std::nullopt : moments_of(job->second);
      if (moments) epoch.transition = transition_of(*moments, before);
      const auto trace = epochs.find(before.number);
      if (moments && trace != epochs.end()) {
        add_losses(epoch, before, trace->second, *epoch.transition);
      }
    }
    history.push_back(std::move(epoch));
  }
  return history;
}

}  // namespace ronde::report
