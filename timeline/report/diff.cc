#include "timeline/report/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "timeline/report/culprit.h"
#include "timeline/report/statistics.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

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

/// For each step after start-up the mean of `part` over ranks.
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
  std::sort(changes.begin(), changes.end(), [](const TensorChange& a, const TensorChange& b) {
    return std::abs(a.after_ns - a.before_ns) > std::abs(b.after_ns - b.before_ns);
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
  const auto most = std::max_element(
      diff.parts.begin(), diff.parts.end(), [&](const Difference& a, const Difference& b) {
        const double sign = change > 0 ? 1 : -1;
        return sign * (a.after_ns - a.before_ns) < sign * (b.after_ns - b.before_ns);
      });
  if (most != diff.parts.end() && most->counts(step.before_ns)) {
    text += fmt::format("Most of it is {}: {} of {}.\n", most->what,
                        signed_time(most->after_ns - most->before_ns),
                        signed_time(step.after_ns - step.before_ns));
  }
  if (!diff.culprit.empty()) text += diff.culprit + '\n';
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
    diff.culprit = describe_culprit(before, after, diff.step.after_ns - diff.step.before_ns);
  }
  diff.tensors = tensor_changes(before, after);
  diff.notes = notes_of(before.job, after.job);
  return diff;
}

std::string text_of(const Diff& diff) {
  std::string out = verdict_of(diff);
  for (const std::string& note : diff.notes) wrap(out, "Note: " + note, 6);
  const auto line = std::back_inserter(out);
  fmt::format_to(line, "\n  {:<18} {:>10} {:>10} {:>11}  {}\n", "median per step", "before",
                 "after", "change", "chance of that");
  const auto row = [&](const Difference& change) {
    fmt::format_to(line, "  {:<18} {:>10} {:>10} {:>11}  {}{}\n", change.what,
                   human_time(change.before_ns), human_time(change.after_ns),
                   signed_time(change.after_ns - change.before_ns), chance(change.p),
                   change.counts(diff.step.before_ns) ? "  *" : "");
  };
  row(diff.step);
  for (const Difference& part : diff.parts) row(part);
  out += "  * more than chance (p < 0.01) and more than 1 % of a step\n";
  if (diff.tensors.empty()) return out;
  fmt::format_to(line, "\n  {:>10} {:>10} {:>11}  {}\n", "before", "after", "change",
                 "tensor, mean from submission to end");
  for (const TensorChange& change : diff.tensors) {
    fmt::format_to(line, "  {:>10} {:>10} {:>11}  {}\n", human_time(change.before_ns),
                   human_time(change.after_ns), signed_time(change.after_ns - change.before_ns),
                   change.name);
  }
  return out;
}

}  // namespace ronde::report
