#include <fmt/format.h>

#include <algorithm>

#include "core/base/join_text.h"
#include "timeline/recording/epoch_recorder.h"
#include "timeline/report/job_history.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

constexpr std::size_t kMostRows = 40;
constexpr std::size_t kMostJoiners = 8;
constexpr std::size_t kMostGone = 8;  // of a running job

std::string shown(std::int64_t ns) { return human_time(static_cast<double>(ns)); }

std::string plural(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string joiners_text(const std::vector<int>& joined) {
  if (joined.size() > kMostJoiners) return fmt::format("{} workers joined", joined.size());
  return fmt::format("worker{} {} joined", joined.size() == 1 ? "" : "s", join_text(joined, ", "));
}

bool is(const WorkerChange& change, WorkerEvent event) { return change.event == to_string(event); }

/// Workers that died or left in an epoch, each as `text` of the change shows it.
template <typename Text>
void add_losses(std::vector<std::string>& losses, const Epoch& epoch, Text text) {
  for (const WorkerChange& change : epoch.changes) {
    if (!is(change, WorkerEvent::kDied) && !is(change, WorkerEvent::kLeft)) continue;
    losses.push_back(text(change) + (change.why.empty() ? "" : ": " + change.why));
  }
}

void append_row(std::string& out, const Epoch& epoch, const Epoch* before, std::int64_t zero_ns) {
  const std::string cause = cause_of(epoch, before);
  out += fmt::format("  {:>5} {:>10} {:>10} {:>6}  ", epoch.number, shown(epoch.begin_ns - zero_ns),
                     shown(epoch.duration_ns()), epoch.workers.size());
  wrap(out, cause, 36);
}

/// Parts that took no time are left out.
std::string parts_text(const Transition& transition) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t ns, const char* what) {
    if (ns > 0) parts.push_back(fmt::format("{} {}", shown(ns), what));
  };
  add(transition.notice_ns, "until it was noticed");
  add(transition.leave_ns, "to leave the epoch");
  add(transition.wait_ns, "waiting for the next");
  add(transition.connect_ns, "to connect");
  add(transition.first_ns, "to the end of the first operation");
  return join_text(parts, ", ");
}

/// " (3 steps)"; empty if no steps are marked.
std::string steps_text(std::uint64_t steps) {
  return steps == 0 ? "" : " (" + plural(steps, "step", "steps") + ")";
}

std::string loss_text(const Transition& transition) {
  if (transition.lost_ns < 0) return {};
  return fmt::format(" Work of {}{} since the last commit was lost.", shown(transition.lost_ns),
                     steps_text(transition.lost_steps));
}

void append_transition(std::string& out, const Epoch& epoch) {
  const Transition& transition = *epoch.transition;
  out += "  ";
  wrap(out,
       fmt::format("{} to epoch {}: {} ({}).{}", transition.failed ? "Recovery" : "Change",
                   epoch.number, shown(transition.duration_ns()), parts_text(transition),
                   loss_text(transition)),
       4);
}

/// Sums over all epochs.
struct Totals {
  std::size_t died = 0, left = 0, joined = 0, recoveries = 0, changes = 0;
  std::int64_t recovery_ns = 0, change_ns = 0, lost_ns = 0;
  std::uint64_t lost_steps = 0;
};

Totals totals_of(const std::vector<Epoch>& history) {
  Totals totals;
  for (const Epoch& epoch : history) {
    totals.joined += epoch.joined.size();
    for (const WorkerChange& change : epoch.changes) {
      totals.died += is(change, WorkerEvent::kDied) ? 1U : 0U;
      totals.left += is(change, WorkerEvent::kLeft) ? 1U : 0U;
    }
    if (!epoch.transition) continue;
    const Transition& transition = *epoch.transition;
    (transition.failed ? totals.recoveries : totals.changes) += 1;
    (transition.failed ? totals.recovery_ns : totals.change_ns) += transition.duration_ns();
    totals.lost_ns += std::max<std::int64_t>(0, transition.lost_ns);
    totals.lost_steps += transition.lost_steps;
  }
  return totals;
}

std::string totals_text(const std::vector<Epoch>& history) {
  const Totals totals = totals_of(history);
  std::string text = fmt::format(
      "In all: {}; {} died, {} joined, {} left.", plural(history.size(), "epoch", "epochs"),
      plural(totals.died, "worker", "workers"), totals.joined, totals.left);
  if (totals.recoveries > 0) {
    text += fmt::format(
        " {} took {}; work of {}{} was lost.", plural(totals.recoveries, "recovery", "recoveries"),
        shown(totals.recovery_ns), shown(totals.lost_ns), steps_text(totals.lost_steps));
  }
  if (totals.changes > 0) {
    text += fmt::format(" {} took {}.", plural(totals.changes, "change", "changes"),
                        shown(totals.change_ns));
  }
  return text;
}

/// Workers of the epoch before that are not in this one.
std::vector<std::string> absences_of(const Epoch& epoch, const Epoch& before) {
  std::vector<std::string> absences;
  for (const int worker : before.workers) {
    if (std::ranges::find(epoch.workers, worker) != epoch.workers.end()) continue;
    absences.push_back(fmt::format("worker {} is gone", worker));
  }
  return absences;
}

}  // namespace

std::string cause_of(const Epoch& epoch, const Epoch* before) {
  std::vector<std::string> causes;
  if (before != nullptr) {
    add_losses(causes, *before, [](const WorkerChange& change) {
      return fmt::format("worker {} {}", change.worker, change.event);
    });
  }
  if (causes.empty() && !epoch.why.empty()) causes.push_back(epoch.why);
  if (causes.empty() && before != nullptr) causes = absences_of(epoch, *before);
  if (!epoch.joined.empty()) causes.push_back(joiners_text(epoch.joined));
  if (causes.empty() && before == nullptr) causes.emplace_back("the job began");
  return join_text(causes, "; ");
}

std::string workers_report(const std::vector<Epoch>& history) {
  const Epoch& newest = history.back();
  std::string out =
      fmt::format("Epoch {} of the job {} {}: {}\n", newest.number,
                  newest.open ? "has lasted" : "has ended after", shown(newest.duration_ns()),
                  plural(newest.workers.size(), "worker", "workers"));
  for (std::size_t rank = 0; rank < std::min(newest.workers.size(), kMostRows); ++rank) {
    out += fmt::format("  worker {:<6} rank {}\n", newest.workers[rank], rank);
  }
  std::vector<std::string> gone;
  for (const Epoch& epoch : history) {
    add_losses(gone, epoch, [&](const WorkerChange& change) {
      return fmt::format("  worker {:<6} {} in epoch {}", change.worker, change.event,
                         epoch.number);
    });
  }
  const std::size_t first = gone.size() > kMostGone ? gone.size() - kMostGone : 0;
  for (std::size_t i = first; i < gone.size(); ++i) out += gone[i] + "\n";
  if (newest.transition) append_transition(out, newest);
  return out;
}

std::string epochs_report(const std::vector<Epoch>& history) {
  std::string out = "Epochs\n";
  out += fmt::format("  {:>5} {:>10} {:>10} {:>6}  {}\n", "epoch", "start", "length", "ranks",
                     "why it began");
  const std::size_t first = history.size() > kMostRows ? history.size() - kMostRows : 0;
  for (std::size_t i = first; i < history.size(); ++i) {
    append_row(out, history[i], i > 0 ? &history[i - 1] : nullptr, history.front().begin_ns);
  }
  if (first > 0) out += fmt::format("  (the last {} of {} epochs)\n", kMostRows, history.size());
  for (std::size_t i = first; i < history.size(); ++i) {
    if (history[i].transition) append_transition(out, history[i]);
  }
  out += "  ";
  wrap(out, totals_text(history), 4);
  return out;
}

}  // namespace ronde::report
