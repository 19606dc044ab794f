#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "timeline/report/pipeline.h"
#include "timeline/report/reports.h"
#include "timeline/report/spans.h"
#include "timeline/report/statistics.h"
#include "timeline/report/summary.h"
#include "timeline/report/what_if.h"

namespace ronde::report {
namespace {

constexpr std::size_t kMostRanks = 16;
constexpr std::size_t kMostTextRows = 12;
constexpr std::size_t kMostSpanRanks = 4;  // that fit into a line
constexpr double kWorthTelling = 0.01;     // of a step

template <typename... Args>
void line(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  out += fmt::format(format, std::forward<Args>(args)...);
  out += '\n';
}

void add_head(std::string& out, const JobTrace& job, const Analysis& analysis) {
  const int size = job.ranks.front().info.size;
  out += fmt::format("Job of {} rank{}; {} events", size, size == 1 ? "" : "s", job.events);
  if (analysis.steps.empty()) {
    out += '\n';
  } else {
    line(out, "; {} of {} on average", units_text(analysis),
         human_time(means_of(analysis).step_ns));
    if (const std::string how = steps_note(analysis); !how.empty()) wrap(out, how, 0);
  }
  for (const std::string& note : job.notes) wrap(out, "Note: " + note, 6);
}

void add_findings(std::string& out, const std::vector<Finding>& findings) {
  line(out, "\nVerdict");
  for (std::size_t i = 0; i < findings.size(); ++i) {
    out += fmt::format("  {}. ", i + 1);
    wrap(out, findings[i].text, 5);
    if (findings[i].advice.empty()) continue;
    out += "     > ";
    wrap(out, findings[i].advice, 7);
  }
}

void add_split(std::string& out, const std::string& label, const Means& means) {
  out += fmt::format("  {:<10}{:>10}", label, human_time(means.step_ns));
  for (std::size_t i = 0; i < kPhases; ++i) {
    out += fmt::format("{:>9} {:>3.0f}%", human_time(means.phase_ns[i]),
                       100 * means.share(static_cast<Phase>(i)));
  }
  out += '\n';
}

/// Ranks to show: all, or those that are outside Ronde longest if there are many.
std::vector<std::size_t> shown_ranks(const JobTrace& job, const Analysis& analysis) {
  std::vector<std::size_t> shown;
  std::vector<double> compute;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    shown.push_back(rank);
    compute.push_back(means_of(analysis, rank).of(Phase::kOutside));
  }
  if (shown.size() <= kMostRanks) return shown;
  std::ranges::sort(shown, std::greater(), [&](std::size_t rank) { return compute[rank]; });
  shown.resize(kMostRanks);
  return shown;
}

void add_splits(std::string& out, const JobTrace& job, const Analysis& analysis) {
  line(out, "\nTime per {}, by what the training thread did", unit_of(analysis));
  out += fmt::format("  {:<10}{:>10}", "", "in all");
  for (const char* name : {"outside Ronde", "waiting", "negotiation", "pack", "wire", "other"}) {
    out += fmt::format("{:>14}", name);
  }
  out += '\n';
  const Means all = means_of(analysis);
  add_split(out, "all ranks", all);
  const auto shown = shown_ranks(job, analysis);
  for (const std::size_t rank : shown) {
    add_split(out, label_of(job.ranks[rank].info), means_of(analysis, rank));
  }
  if (shown.size() < job.ranks.size()) {
    line(out, "  (of {} ranks, those that are outside Ronde longest)", job.ranks.size());
  }
  if (all.no_core_ns >= kWorthTelling * all.step_ns) {
    line(out, "  The training thread stands ready without a core for {} ({:.0f} %) of it.",
         human_time(all.no_core_ns), 100 * all.no_core_ns / all.step_ns);
  }
  line(out, "  Data moves for {} per {}: {} of it overlaps with time outside Ronde, {} is exposed.",
       human_time(all.moving_ns), unit_of(analysis), human_time(all.overlapped_ns),
       human_time(all.of(Phase::kWire) + all.of(Phase::kPack)));
}

void add_pipeline(std::string& out, const JobTrace& job, const Analysis& analysis) {
  const auto pipeline = find_pipeline(job, analysis);
  if (!pipeline) return;
  line(out, "\nPipeline of {} stages: {:.1f} % of each {} is bubble, {:.1f} % by its schedule",
       pipeline->stages.size(), percent(pipeline->bubble()), unit_of(analysis),
       percent(pipeline->schedule_share()));
  for (std::size_t i = 0; i < pipeline->stages.size(); ++i) {
    const Stage& stage = pipeline->stages[i];
    line(out, "  {:<32} works {:>9}, is idle {:>9}{}", stage_label(*pipeline, i, job),
         human_time(stage.work_ns), human_time(stage.idle_ns),
         i == pipeline->slowest ? ", the least" : "");
  }
}

void add_span_row(std::string& out, const std::string& name, const std::vector<double>& own_ns,
                  double step_ns, const std::vector<std::size_t>& shown) {
  const double all_ns = mean(own_ns);
  out += fmt::format("  {:<24}{:>10} {:>3.0f}%", name, human_time(all_ns),
                     step_ns > 0 ? 100 * all_ns / step_ns : 0);
  for (const std::size_t rank : shown) out += fmt::format("{:>11}", human_time(own_ns[rank]));
  out += '\n';
}

void add_spans(std::string& out, const JobTrace& job, const Analysis& analysis) {
  const std::vector<SpanTime> spans = span_times(job, analysis);
  if (spans.empty()) return;
  std::vector<std::size_t> shown = shown_ranks(job, analysis);
  if (shown.size() > kMostSpanRanks) shown.resize(kMostSpanRanks);
  line(out, "\nSpans per {}, without waiting in Ronde and without spans inside them",
       unit_of(analysis));
  out += fmt::format("  {:<24}{:>15}", "", "mean of ranks");
  for (const std::size_t rank : shown) out += fmt::format("{:>11}", label_of(job.ranks[rank].info));
  out += '\n';
  const double step_ns = means_of(analysis).step_ns;
  for (std::size_t i = 0; i < std::min(spans.size(), kMostTextRows); ++i) {
    add_span_row(out, spans[i].name, spans[i].own_ns, step_ns, shown);
  }
  add_span_row(out, "(outside, in no span)", unmarked_ns(analysis, spans), step_ns, shown);
}

void add_paths(std::string& out, const JobTrace& job, const Analysis& analysis) {
  if (analysis.paths.empty()) return;
  line(out, "\nPaths\n  {:>8} {:>9} {:>9} {:>9} {:>11} {:>11}  {}", "bundles", "tensors", "bytes",
       "moving", "bus", "best", "collective, algorithm, data plane");
  for (const PathCost& path : analysis.paths) {
    line(out, "  {:>8} {:>9} {:>9} {:>9} {:>11} {:>11}  {}", path.bundles, path.tensors,
         human_bytes(static_cast<double>(path.bytes)),
         human_time(static_cast<double>(path.moving_ns)), human_rate(path.bus_gbps),
         human_rate(path.best_gbps), path.path.text());
  }
  const Fusion& fusion = analysis.fusion;
  line(out, "  Fusion: {:.1f} tensors in {:.1f} bundles a {}; half the bundles hold {} or more.",
       fusion.tensors, fusion.bundles, unit_of(analysis), human_bytes(fusion.median_bundle_bytes));
  if (const double share = fusion_efficiency(analysis); share >= 0) {
    line(out, "  Fusion efficiency: {:.0f} % of the moving goes by bytes, the rest by bundles.",
         100 * share);
  }
  out += "  ";
  wrap(out, bandwidth_note(job), 2);
}

void add_what_ifs(std::string& out, const JobTrace& job, const Analysis& analysis) {
  line(out, "\nWhat if (predicted from this trace)");
  out += "  ";
  wrap(out, cost_model(analysis), 2);
  const double step_ns = means_of(analysis).step_ns;
  const auto changes = what_ifs(job, analysis);
  if (changes.empty()) line(out, "  No change that is known here would save 1 %.");
  for (const WhatIf& change : changes) {
    out += fmt::format("  -{:<13} ", share_text(change, step_ns));
    wrap(out, fmt::format("{}: {}", change.change, time_text(change)), 17);
  }
}

void add_tensors(std::string& out, const JobTrace& job) {
  const auto rows = costliest_tensors(job, kMostTextRows);
  if (rows.empty()) return;
  line(out,
       "\nCostliest tensors (mean of an operation, whole trace)\n  {:>8} {:>9} {:>12} {:>10}  {}",
       "times", "bytes", "negotiating", "moving", "tensor");
  for (const TensorRow& row : rows) {
    const auto count = static_cast<double>(row.cost.count);
    line(out, "  {:>8} {:>9} {:>12} {:>10}  {}", row.cost.count,
         human_bytes(static_cast<double>(row.cost.bytes) / count),
         human_time(static_cast<double>(row.cost.negotiation_ns) / count),
         human_time(static_cast<double>(row.cost.execution_ns) / count), row.name);
  }
}

void add_rates(std::string& out, const JobTrace& job, const Analysis& analysis) {
  line(out, "\nRates\n  {:<10}{:>14}{:>14}", "", "operations/s", "bytes/s");
  for (const std::size_t index : shown_ranks(job, analysis)) {
    const RankTrace& rank = job.ranks[index];
    if (rank.operations.empty()) continue;
    double bytes = 0;
    double operations = 0;
    for (const OperationSpan& span : rank.operations) {
      bytes += static_cast<double>(span.bytes);
      operations += span.tensors;
    }
    const std::int64_t ns = rank.operations.back().end_ns - rank.operations.front().first_submit_ns;
    const double seconds = static_cast<double>(std::max<std::int64_t>(1, ns)) / 1e9;
    line(out, "  {:<10}{:>14.0f}{:>14}", label_of(rank.info), operations / seconds,
         human_bytes(bytes / seconds));
  }
}

/// What both reports begin with.
std::string begin_report(const JobTrace& job, const Analysis& analysis,
                         const std::vector<Finding>& findings) {
  std::string out;
  add_head(out, job, analysis);
  add_findings(out, findings);
  if (analysis.steps.empty()) return out;
  add_splits(out, job, analysis);
  add_pipeline(out, job, analysis);
  add_spans(out, job, analysis);
  return out;
}

}  // namespace

std::string live_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings) {
  std::string out = begin_report(job, analysis, findings);
  add_rates(out, job, analysis);
  return out;
}

std::string text_report(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings) {
  std::string out = begin_report(job, analysis, findings);
  add_paths(out, job, analysis);
  if (!analysis.steps.empty()) add_what_ifs(out, job, analysis);
  add_tensors(out, job);
  return out;
}

}  // namespace ronde::report
