#include "timeline/report/analysis.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "timeline/report/statistics.h"

namespace ronde::report {
namespace {

constexpr std::size_t kFewestSteps = 2;
constexpr int kWindows = 40;  // of time, if no steps are known

void take_span(const OperationSpan& span, std::uint32_t rank, Bundle& bundle) {
  const bool first = bundle.span == nullptr;
  if (first) bundle.span = &span;
  ++bundle.ranks;
  if (first || span.last_submit_ns > bundle.ready_ns) {
    bundle.ready_ns = span.last_submit_ns;
    bundle.last = rank;
  }
  bundle.first_ready_ns =
      first ? span.last_submit_ns : std::min(bundle.first_ready_ns, span.last_submit_ns);
  bundle.started_ns = std::max(bundle.started_ns, span.start_ns);
  bundle.ended_ns = std::max(bundle.ended_ns, span.end_ns);
}

BundleIndex collect_bundles(const JobTrace& job, std::vector<Bundle>& bundles) {
  BundleIndex index_of;
  for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    for (const OperationSpan& span : job.ranks[rank].operations) {
      const auto [at, added] =
          index_of.try_emplace(span.bundle, static_cast<std::uint32_t>(bundles.size()));
      if (added) bundles.emplace_back();
      take_span(span, rank, bundles[at->second]);
    }
  }
  return index_of;
}

/// The ends of a rank's steps, by number.
std::map<std::uint64_t, std::int64_t> step_ends(const RankTrace& rank) {
  std::map<std::uint64_t, std::int64_t> ends;
  for (const StepMark& mark : rank.steps) ends[mark.number] = mark.time_ns;
  return ends;
}

/// True if the rank's recording paused in the step.
bool pauses_in(const RankTrace& rank, const Split& split) {
  return std::ranges::any_of(rank.pauses, [&](const NamedSpan& pause) {
    return pause.start_ns < split.end_ns && pause.end_ns > split.start_ns;
  });
}

void drop_paused(const JobTrace& job, std::vector<Step>& steps) {
  std::erase_if(steps, [&](const Step& step) {
    for (std::size_t i = 0; i < job.ranks.size(); ++i) {
      if (pauses_in(job.ranks[i], step.ranks[i])) return true;
    }
    return false;
  });
}

/// Steps with both ends marked on all ranks. This leaves out the first, which warms up.
std::vector<Step> marked_steps(const JobTrace& job) {
  std::vector<std::map<std::uint64_t, std::int64_t>> ends;
  for (const RankTrace& rank : job.ranks) ends.push_back(step_ends(rank));
  std::vector<Step> steps;
  for (const auto& [number, time] : ends.front()) {
    const bool everywhere = std::all_of(ends.begin(), ends.end(), [n = number](const auto& of) {
      return of.contains(n) && of.contains(n - 1);
    });
    if (!everywhere) continue;
    Step& step = steps.emplace_back();
    step.number = number;
    for (const auto& of : ends) {
      step.ranks.push_back({.start_ns = of.at(number - 1), .end_ns = of.at(number)});
    }
  }
  return steps;
}

std::vector<Step> windows(const JobTrace& job) {
  std::int64_t start = job.ranks.front().first_ns;
  std::int64_t end = job.ranks.front().last_ns;
  for (const RankTrace& rank : job.ranks) {
    start = std::max(start, rank.first_ns);
    end = std::min(end, rank.last_ns);
  }
  std::vector<Step> steps;
  const std::int64_t width = (end - start) / kWindows;
  if (width <= 0) return steps;
  for (int i = 0; i < kWindows; ++i) {
    Step& step = steps.emplace_back();
    step.number = static_cast<std::uint64_t>(i) + 1;
    const Split split{.start_ns = start + i * width, .end_ns = start + (i + 1) * width};
    step.ranks.assign(job.ranks.size(), split);
  }
  return steps;
}

/// True if the bundle ran within a step. Excludes set-up and steps that were left out.
bool is_within(const Bundle& bundle, const std::vector<Step>& steps) {
  const auto next = std::ranges::lower_bound(
      steps, bundle.ended_ns, {}, [](const Step& step) { return step.ranks.front().start_ns; });
  return next != steps.begin() && bundle.started_ns < std::prev(next)->ranks.front().end_ns;
}

/// Bytes that pass each rank's link for each byte of the tensor.
double bus_factor(const Path& path, std::uint32_t ranks) {
  return path.collective ? traits_of(*path.collective).bus_factor(static_cast<int>(ranks)) : 1;
}

struct PathSamples {
  PathCost cost;
  std::vector<double> bytes;
  std::vector<double> ns;
  double bus_bytes = 0;
};

void take_bundle(const Bundle& bundle, PathSamples& path) {
  const auto bytes = static_cast<double>(bundle.span->bytes);
  ++path.cost.bundles;
  path.cost.tensors += bundle.span->tensors;
  path.cost.bytes += bundle.span->bytes;
  path.cost.moving_ns += bundle.moving_ns();
  path.bytes.push_back(bytes);
  path.ns.push_back(static_cast<double>(bundle.moving_ns()));
  path.bus_bytes += bytes * bus_factor(path.cost.path, bundle.ranks);
}

/// Speed of the fastest twentieth of the bundles of at least mean size.
double best_gbps(const PathSamples& path) {
  const double least_bytes = mean(path.bytes);
  const double factor = path.bus_bytes / static_cast<double>(path.cost.bytes);
  std::vector<double> speeds;
  for (std::size_t i = 0; i < path.bytes.size(); ++i) {
    if (path.ns[i] > 0 && path.bytes[i] >= least_bytes) {
      speeds.push_back(factor * path.bytes[i] / path.ns[i]);
    }
  }
  if (speeds.empty()) return 0;
  const auto at =
      speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() - 1 - speeds.size() / 20);
  std::nth_element(speeds.begin(), at, speeds.end());
  return *at;
}

/// The path of a bundle, without the algorithm of a dense allreduce.
Path way_of(const OperationSpan& span, Path path) {
  const bool allreduce = path.collective == Collective::kAllreduce;
  if (allreduce && !span.compressed && !path.backend.empty()) path.algorithm.clear();
  return path;
}

PathCost cost_of(PathSamples& path) {
  if (path.cost.moving_ns > 0) {
    path.cost.bus_gbps = path.bus_bytes / static_cast<double>(path.cost.moving_ns);
    path.cost.best_gbps = best_gbps(path);
  }
  path.cost.cost = fit_costs(path.bytes, path.ns);
  return std::move(path.cost);
}

/// The samples of bundles by their paths.
using SamplesByPath = std::map<Path, PathSamples>;

void take_bundle(const Bundle& bundle, const Path& path, SamplesByPath& samples) {
  PathSamples& of_path = samples[path];
  of_path.cost.path = path;
  of_path.cost.compressed = bundle.span->compressed;
  take_bundle(bundle, of_path);
}

/// The costliest first.
std::vector<PathCost> costs_of(SamplesByPath& samples) {
  std::vector<PathCost> costs;
  costs.reserve(samples.size());
  for (auto& [path, one] : samples) costs.push_back(cost_of(one));
  std::ranges::sort(costs, std::greater(), &PathCost::moving_ns);
  return costs;
}

void add_costs(const JobTrace& job, Analysis& analysis) {
  SamplesByPath paths;
  SamplesByPath ways;
  for (const Bundle& bundle : analysis.bundles) {
    if (bundle.span->bytes == 0 || !is_within(bundle, analysis.steps)) continue;
    const Path& path = job.paths[bundle.span->path];
    take_bundle(bundle, path, paths);
    take_bundle(bundle, way_of(*bundle.span, path), ways);
  }
  analysis.paths = costs_of(paths);
  analysis.ways = costs_of(ways);
}

/// Share of a rank's operations submitted after all earlier ones had ended.
double one_by_one(const RankTrace& rank) {
  if (rank.operations.empty()) return 0;
  double alone = 0;
  std::int64_t ended = 0;
  for (const OperationSpan& span : rank.operations) {
    if (span.first_submit_ns >= ended) alone += 1;
    ended = std::max(ended, span.end_ns);
  }
  return alone / static_cast<double>(rank.operations.size());
}

Fusion fusion_of(const JobTrace& job, const Analysis& analysis) {
  Fusion fusion;
  std::vector<double> sizes;
  for (const Bundle& bundle : analysis.bundles) {
    if (bundle.span->bytes == 0 || !is_within(bundle, analysis.steps)) continue;
    fusion.tensors += bundle.span->tensors;
    fusion.bytes += static_cast<double>(bundle.span->bytes);
    sizes.push_back(static_cast<double>(bundle.span->bytes));
  }
  const auto steps = static_cast<double>(analysis.steps.size());
  fusion.bundles = static_cast<double>(sizes.size()) / steps;
  fusion.tensors /= steps;
  fusion.bytes /= steps;
  fusion.median_bundle_bytes = median(std::move(sizes));
  fusion.one_by_one = one_by_one(job.ranks.front());
  return fusion;
}

/// Charges each rank with the waits for it, up to the time it worked longer than the waiting rank.
void charge(Step& step) {
  step.blamed_ns.resize(step.ranks.size());
  for (const Split& waiter : step.ranks) {
    for (const WaitedFor& late : waiter.awaited) {
      const std::int64_t more_ns = step.ranks[late.rank].work_ns() - waiter.work_ns();
      step.blamed_ns[late.rank] += std::clamp<std::int64_t>(more_ns, 0, late.ns);
    }
  }
}

}  // namespace

void Split::add_awaited(std::uint32_t rank, std::int64_t waited_ns) {
  const auto known = std::ranges::find(awaited, rank, &WaitedFor::rank);
  if (known == awaited.end()) {
    awaited.push_back({rank, waited_ns});
  } else {
    known->ns += waited_ns;
  }
}

std::size_t step_at(const Analysis& analysis, std::size_t rank, std::int64_t time_ns) {
  const auto& steps = analysis.steps;
  const auto next = std::ranges::upper_bound(
      steps, time_ns, {}, [rank](const Step& step) { return step.ranks[rank].start_ns; });
  if (next == steps.begin() || time_ns >= std::prev(next)->ranks[rank].end_ns) return steps.size();
  return static_cast<std::size_t>(std::prev(next) - steps.begin());
}

Analysis analyze(const JobTrace& job) {
  Analysis analysis;
  const BundleIndex index_of = collect_bundles(job, analysis.bundles);
  analysis.steps = marked_steps(job);
  drop_paused(job, analysis.steps);
  analysis.by_steps = analysis.steps.size() >= kFewestSteps;
  if (!analysis.by_steps) {
    InferredSteps inferred = infer_steps(job);
    drop_paused(job, inferred.steps);
    analysis.by_steps = inferred.steps.size() >= kFewestSteps;
    if (analysis.by_steps) {
      analysis.inferred_first = std::move(inferred.first);
      analysis.steps = std::move(inferred.steps);
    }
  }
  if (!analysis.by_steps) {
    analysis.steps = windows(job);
    drop_paused(job, analysis.steps);
  }
  if (analysis.steps.empty()) return analysis;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    sweep_rank(job.ranks[rank], rank, index_of, analysis);
  }
  for (Step& step : analysis.steps) charge(step);
  add_costs(job, analysis);
  analysis.fusion = fusion_of(job, analysis);
  return analysis;
}

}  // namespace ronde::report
