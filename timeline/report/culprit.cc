#include "timeline/report/culprit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

/// The step of the rank that holds the time; none: the number of steps.
std::size_t step_at(const Run& run, std::size_t rank, std::int64_t time_ns) {
  const auto& steps = run.analysis.steps;
  const auto next = std::upper_bound(
      steps.begin(), steps.end(), time_ns,
      [rank](std::int64_t time, const Step& step) { return time < step.ranks[rank].start_ns; });
  if (next == steps.begin() || time_ns >= std::prev(next)->ranks[rank].end_ns) return steps.size();
  return static_cast<std::size_t>(std::prev(next) - steps.begin());
}

/// The part of the span in which the rank is not blocked in Ronde. `waits` are by end.
std::int64_t outside_ns(const NamedSpan& span, const std::vector<NamedSpan>& waits) {
  std::int64_t ns = span.end_ns - span.start_ns;
  auto wait = std::lower_bound(
      waits.begin(), waits.end(), span.start_ns,
      [](const NamedSpan& one, std::int64_t time_ns) { return one.end_ns < time_ns; });
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
    const std::size_t step = step_at(run, rank, mark.start_ns);
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
struct Change {
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

std::vector<Change> all_changes(const Run& before, const Run& after) {
  const auto old_series = all_series(before);
  std::vector<Change> changes;
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
const Change* largest(const std::vector<Change>& changes, double sign) {
  const auto most = std::ranges::max_element(
      changes, [sign](const Change& a, const Change& b) { return a.along(sign) < b.along(sign); });
  if (most == changes.end()) return nullptr;
  const Change* named = &*most;
  for (const Change& one : changes) {
    if (one.rank != most->rank || one.along(sign) < kAsMuch * most->along(sign)) continue;
    if (one.before_ns + one.after_ns < named->before_ns + named->after_ns) named = &one;
  }
  return named;
}

/// The median change of the same mark on the other ranks; 0 if there are none.
double change_of_others(const std::vector<Change>& changes, const Change& named, double sign) {
  std::vector<double> others;
  for (const Change& one : changes) {
    if (one.mark == named.mark && one.rank != named.rank) others.push_back(one.along(sign));
  }
  return median(std::move(others));
}

}  // namespace

std::string describe_culprit(const Run& before, const Run& after, double change_ns) {
  const double sign = change_ns > 0 ? 1 : -1;
  const auto changes = all_changes(before, after);
  const Change* named = largest(changes, sign);
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

}  // namespace ronde::report
