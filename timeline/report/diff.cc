#include "timeline/report/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "timeline/report/statistics.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

constexpr double kGoodPart = 0.3;    // of the step's change
constexpr double kChance = 0.01;     // of such a difference between equal runs
constexpr double kAsMuch = 0.8;      // of the largest change: the shortest such mark is named
constexpr double kOthersToo = 0.5;   // of the rank's change: then all ranks changed
constexpr const char* kNoMark = "";  // stands for all time outside Ronde

/// Time outside Ronde in each step, by mark.
using Series = std::map<std::string, std::vector<double>>;

/// The part of the span in which the rank is not blocked in Ronde. `waits` are by end.
std::int64_t outside_ns(const NamedSpan& span, const std::vector<NamedSpan>& waits) {
  std::int64_t ns = span.end_ns - span.start_ns;
  auto wait = std::ranges::lower_bound(waits, span.start_ns, {}, &NamedSpan::end_ns);
  for (; wait != waits.end() && wait->start_ns < span.end_ns; ++wait) {
    ns -= std::min(wait->end_ns, span.end_ns) - std::max(wait->start_ns, span.start_ns);
  }
  return std::max<std::int64_t>(ns, 0);
}

Series series_of(const Run& run, std::size_t rank) {
  Series series;
  const std::size_t count = run.analysis.steps.size();
  std::vector<double>& all = series[kNoMark];
  for (const Step& step : run.analysis.steps) {
    all.push_back(static_cast<double>(step.ranks[rank].work_ns()));
  }
  const RankTrace& trace = run.job.ranks[rank];
  for (const NamedSpan& mark : trace.marks) {
    const std::size_t step = step_at(run.analysis, rank, mark.start_ns);
    if (step == count) continue;
    auto& values = series[run.job.names.text_of(mark.name)];
    values.resize(count);
    values[step] += static_cast<double>(outside_ns(mark, trace.waits));
  }
  return series;
}

/// Series of each rank, by its number.
std::map<std::int64_t, Series> all_series(const Run& run) {
  std::map<std::int64_t, Series> series;
  for (std::size_t i = 0; i < run.job.ranks.size(); ++i) {
    series[run.job.ranks[i].info.row()] = series_of(run, i);
  }
  return series;
}

/// The change of one mark on one rank.
struct RunChange {
  std::int64_t rank = 0;
  std::string mark;
  double before_ns = 0;
  double after_ns = 0;
  double p = 1;

  /// How far it goes in the direction of the steps' change.
  [[nodiscard]] double along(double sign) const { return sign * (after_ns - before_ns); }
};

std::vector<double> values_of(const Series& series, const std::string& mark) {
  const auto found = series.find(mark);
  return found != series.end() ? found->second : std::vector<double>(series.at(kNoMark).size());
}

std::vector<RunChange> all_changes(const Run& before, const Run& after) {
  const auto old_series = all_series(before);
  std::vector<RunChange> changes;
  for (const auto& [rank, series] : all_series(after)) {
    const auto old = old_series.find(rank);
    if (old == old_series.end()) continue;
    std::set<std::string> marks;
    for (const Series* one : {&old->second, &series}) {
      for (const auto& [mark, values] : *one) marks.insert(mark);
    }
    for (const std::string& mark : marks) {
      const auto a = values_of(old->second, mark);
      const auto b = values_of(series, mark);
      changes.push_back({rank, mark, median(a), median(b), rank_sum_p(a, b)});
    }
  }
  return changes;
}

/// The largest change; of the marks on that rank that changed as much, the shortest.
const RunChange* largest(const std::vector<RunChange>& changes, double sign) {
  const auto most = std::ranges::max_element(
      changes, {}, [sign](const RunChange& change) { return change.along(sign); });
  if (most == changes.end()) return nullptr;
  const RunChange* named = &*most;
  for (const RunChange& one : changes) {
    if (one.rank != most->rank || one.along(sign) < kAsMuch * most->along(sign)) continue;
    if (one.before_ns + one.after_ns < named->before_ns + named->after_ns) named = &one;
  }
  return named;
}

/// The median change of the same mark on the other ranks; 0 if there are none.
double change_of_others(const std::vector<RunChange>& changes, const RunChange& named,
                        double sign) {
  std::vector<double> others;
  for (const RunChange& one : changes) {
    if (one.mark == named.mark && one.rank != named.rank) others.push_back(one.along(sign));
  }
  return median(std::move(others));
}

constexpr double kRunChance = 0.01;
constexpr double kNotedShare = 0.01;
constexpr std::size_t kMostTensors = 12;

/// The number of steps at the beginning that are longer than later ones: they warm up.
std::size_t warm_up_steps(const Analysis& analysis) {
  constexpr double kLonger = 1.5;  // than the median
  const double limit_ns = kLonger * median_step_ns(analysis);
  const std::size_t most = analysis.steps.size() / 5;
  std::size_t count = 0;
  while (count<most&& static_cast<double>(analysis.steps[count].ranks.front().duration_ns())>
             limit_ns) {
    ++count;
  }
  return count;
}

/// The mean of `part` over ranks, for each step after start-up.
template <typename Part>
std::vector<double> by_step(const Analysis& analysis, Part part) {
  std::vector<double> values;
  for (std::size_t i = warm_up_steps(analysis); i < analysis.steps.size(); ++i) {
    const Step& step = analysis.steps[i];
    double sum = 0;
    for (const Split& split : step.ranks) sum += static_cast<double>(part(split));
    values.push_back(sum / static_cast<double>(step.ranks.size()));
  }
  return values;
}

template <typename Part>
Difference change_of(const Run& before, const Run& after, std::string what, Part part) {
  const auto a = by_step(before.analysis, part);
  const auto b = by_step(after.analysis, part);
  return {std::move(what), median(a), median(b), rank_sum_p(a, b)};
}

double mean_ns(const TensorCost& cost) {
  return static_cast<double>(cost.negotiation_ns + cost.execution_ns) /
         static_cast<double>(std::max<std::uint64_t>(cost.count, 1));
}

/// A tensor's operations after the first mark of a step; all, if no steps are marked.
TensorCost after_start_up(const JobTrace& job, std::uint32_t name, TensorCost cost) {
  const auto early = job.start_up_tensors.find(name);
  if (job.ranks.front().steps.empty() || early == job.start_up_tensors.end()) return cost;
  cost.count -= early->second.count;
  cost.bytes -= early->second.bytes;
  cost.negotiation_ns -= early->second.negotiation_ns;
  cost.execution_ns -= early->second.execution_ns;
  return cost;
}

std::map<std::string, double> tensor_means(const JobTrace& job) {
  std::map<std::string, double> means;
  for (const auto& [name, cost] : job.tensors) {
    if (const TensorCost later = after_start_up(job, name, cost); later.count > 0) {
      means[job.names.text_of(name)] = mean_ns(later);
    }
  }
  return means;
}

std::vector<TensorChange> tensor_changes(const Run& before, const Run& after) {
  const auto old_means = tensor_means(before.job);
  std::vector<TensorChange> changes;
  for (const auto& [name, mean] : tensor_means(after.job)) {
    const auto known = old_means.find(name);
    if (known != old_means.end()) changes.push_back({name, known->second, mean});
  }
  std::ranges::sort(changes, std::greater(), [](const TensorChange& change) {
    return std::abs(change.after_ns - change.before_ns);
  });
  if (changes.size() > kMostTensors) changes.resize(kMostTensors);
  return changes;
}

std::string chance(double p) {
  return p < 0.001 ? std::string("p < 0.001") : fmt::format("p = {:.3f}", p);
}

std::string signed_time(double ns) {
  const std::string time = human_time(std::abs(ns));
  return time == "0" ? time : (ns < 0 ? "-" : "+") + time;
}

std::string verdict_of(const Diff& diff) {
  const Difference& step = diff.step;
  if (!step.counts(step.before_ns)) {
    return fmt::format(
        "No difference beyond noise: steps take {} and {} ({} over {} and {} steps).\n",
        human_time(step.before_ns), human_time(step.after_ns), chance(step.p), diff.steps_before,
        diff.steps_after);
  }
  const double change = step.after_ns / step.before_ns - 1;
  std::string text = fmt::format(
      "Steps became {:.1f} % {}: {} before, {} after ({} over {} and {} steps).\n",
      100 * std::abs(change), change > 0 ? "slower" : "faster", human_time(step.before_ns),
      human_time(step.after_ns), chance(step.p), diff.steps_before, diff.steps_after);
  const auto most = std::ranges::max_element(diff.parts, {}, [&](const Difference& part) {
    return (change > 0 ? 1 : -1) * (part.after_ns - part.before_ns);
  });
  if (most != diff.parts.end() && most->counts(step.before_ns)) {
    text += fmt::format("Most of it is {}: {} of {}.\n", most->what,
                        signed_time(most->after_ns - most->before_ns),
                        signed_time(step.after_ns - step.before_ns));
  }
  if (!diff.cause.empty()) text += diff.cause + '\n';
  return text;
}

std::vector<std::string> notes_of(const JobTrace& before, const JobTrace& after) {
  std::vector<std::string> notes;
  for (const std::string& note : before.notes) notes.push_back("Before: " + note);
  for (const std::string& note : after.notes) notes.push_back("After: " + note);
  const int ranks_before = before.ranks.front().info.size;
  const int ranks_after = after.ranks.front().info.size;
  if (ranks_before != ranks_after) {
    notes.push_back(fmt::format("These are jobs of {} and {} ranks.", ranks_before, ranks_after));
  }
  return notes;
}

/// A sentence that names the rank and the mark whose time outside Ronde changed most. It is empty
/// unless that is a good part of `change_ns`, the change of a step. Time blocked in Ronde does not
/// count: it grows on all ranks that wait.
std::string describe_cause(const Run& before, const Run& after, double change_ns) {
  const double sign = change_ns > 0 ? 1 : -1;
  const auto changes = all_changes(before, after);
  const RunChange* named = largest(changes, sign);
  if (named == nullptr || named->p > kChance) return {};
  if (named->along(sign) < kGoodPart * std::abs(change_ns)) return {};
  const double others = change_of_others(changes, *named, sign);
  const bool all = others > kOthersToo * named->along(sign);
  const bool elastic = after.job.epoch > 0;
  const std::string who = all       ? std::string(elastic ? "All workers" : "All ranks")
                          : elastic ? fmt::format("Worker {}", named->rank)
                                    : fmt::format("Rank {}", named->rank);
  const std::string times = fmt::format("{} outside Ronde per step, {} before",
                                        human_time(named->after_ns), human_time(named->before_ns));
  if (named->mark == kNoMark) {
    return fmt::format("{} made the difference: {}.", who, times);
  }
  return fmt::format("{} made the difference, in \"{}\": {}.", who, named->mark, times);
}

}  // namespace

bool Difference::counts(double step_ns) const noexcept {
  return p < kRunChance && std::abs(after_ns - before_ns) > kNotedShare * step_ns;
}

Diff compare(const Run& before, const Run& after) {
  Diff diff;
  diff.steps_before = before.analysis.steps.size() - warm_up_steps(before.analysis);
  diff.steps_after = after.analysis.steps.size() - warm_up_steps(after.analysis);
  diff.step = change_of(before, after, "step", [](const Split& s) { return s.duration_ns(); });
  for (std::size_t i = 0; i < kPhases; ++i) {
    const Phase phase = static_cast<Phase>(i);
    diff.parts.push_back(change_of(before, after, std::string(name_of(phase)),
                                   [phase](const Split& split) { return split.of(phase); }));
  }
  if (diff.step.counts(diff.step.before_ns)) {
    diff.cause = describe_cause(before, after, diff.step.after_ns - diff.step.before_ns);
  }
  diff.tensors = tensor_changes(before, after);
  diff.notes = notes_of(before.job, after.job);
  return diff;
}

std::string text_of(const Diff& diff) {
  std::string out = verdict_of(diff);
  for (const std::string& note : diff.notes) wrap(out, "Note: " + note, 6);
  out += fmt::format("\n  {:<18} {:>10} {:>10} {:>11}  {}\n", "median per step", "before", "after",
                     "change", "chance of that");
  const auto row = [&](const Difference& change) {
    out += fmt::format("  {:<18} {:>10} {:>10} {:>11}  {}{}\n", change.what,
                       human_time(change.before_ns), human_time(change.after_ns),
                       signed_time(change.after_ns - change.before_ns), chance(change.p),
                       change.counts(diff.step.before_ns) ? "  *" : "");
  };
  row(diff.step);
  for (const Difference& part : diff.parts) row(part);
  out += "  * more than chance (p < 0.01) and more than 1 % of a step\n";
  if (diff.tensors.empty()) return out;
  out += fmt::format("\n  {:>10} {:>10} {:>11}  {}\n", "before", "after", "change",
                     "tensor, mean from submission to end");
  for (const TensorChange& change : diff.tensors) {
    out += fmt::format("  {:>10} {:>10} {:>11}  {}\n", human_time(change.before_ns),
                       human_time(change.after_ns), signed_time(change.after_ns - change.before_ns),
                       change.name);
  }
  return out;
}

}  // namespace ronde::report
