#include "timeline/report/spans.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "timeline/report/statistics.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

constexpr double kLongShare = 0.25;  // of a step, on each rank

/// True if it begins in one of the steps and ends before the last of them ends.
bool is_in_steps(const NamedSpan& mark, const Analysis& analysis, std::size_t rank) {
  return step_at(analysis, rank, mark.start_ns) < analysis.steps.size() &&
         mark.end_ns <= analysis.steps.back().ranks[rank].end_ns;
}

/// The beginning or end of a span; the rank's waits are spans without a name.
struct SpanEdge {
  std::int64_t time_ns = 0;
  bool begins = false;
  const NamedSpan* span = nullptr;
  bool is_wait = false;
};

void add_edges(std::vector<SpanEdge>& edges, const NamedSpan& span, bool is_wait) {
  if (span.end_ns <= span.start_ns) return;
  edges.push_back({span.start_ns, true, &span, is_wait});
  edges.push_back({span.end_ns, false, &span, is_wait});
}

/// Gives each moment to the span that began last of those which are open, unless the rank waits.
class OwnTimes {
 public:
  explicit OwnTimes(std::map<std::uint32_t, double>& own_ns) : own_ns_(own_ns) {}

  void take(const SpanEdge& edge) {
    if (waits_ == 0 && !open_.empty()) {
      own_ns_[open_.back()->name] += static_cast<double>(edge.time_ns - time_ns_);
    }
    time_ns_ = edge.time_ns;
    if (edge.is_wait) {
      waits_ += edge.begins ? 1 : -1;
    } else if (edge.begins) {
      open_.push_back(edge.span);
    } else {
      std::erase(open_, edge.span);
    }
  }

 private:
  std::map<std::uint32_t, double>& own_ns_;
  std::vector<const NamedSpan*> open_;
  std::int64_t time_ns_ = 0;
  int waits_ = 0;
};

/// Sums over one rank's steps.
struct RankSpans {
  std::map<std::uint32_t, double> whole_ns;
  std::map<std::uint32_t, double> own_ns;
  std::map<std::uint32_t, bool> is_pass;
};

RankSpans spans_of(const RankTrace& rank, const Analysis& analysis, std::size_t index) {
  RankSpans sums;
  std::vector<SpanEdge> edges;
  for (const NamedSpan& mark : rank.marks) {
    if (!is_in_steps(mark, analysis, index)) continue;
    sums.whole_ns[mark.name] += static_cast<double>(mark.end_ns - mark.start_ns);
    sums.is_pass[mark.name] = mark.is_pass;
    add_edges(edges, mark, false);
  }
  for (const NamedSpan& wait : rank.waits) add_edges(edges, wait, true);
  std::ranges::stable_sort(edges, {}, &SpanEdge::time_ns);
  OwnTimes times(sums.own_ns);
  for (const SpanEdge& edge : edges) times.take(edge);
  return sums;
}

double per_step(const std::map<std::uint32_t, double>& sums, std::uint32_t name,
                const Analysis& analysis) {
  const auto found = sums.find(name);
  return found == sums.end() ? 0 : found->second / static_cast<double>(analysis.steps.size());
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

Finding long_span(const std::string& what, double ns, const Analysis& analysis) {
  const double step_ns = means_of(analysis).step_ns;
  Finding finding{.cause = Cause::kSpan, .share = ns / step_ns};
  finding.text = fmt::format("{} of {} of each {} {} (on all ranks).", human_time(ns),
                             human_time(step_ns), unit_of(analysis), what);
  return finding;
}

}  // namespace

double SpanTime::mean_own_ns() const { return mean(own_ns); }

std::vector<SpanTime> span_times(const JobTrace& job, const Analysis& analysis) {
  std::vector<SpanTime> spans;
  if (analysis.steps.empty()) return spans;
  std::vector<RankSpans> ranks;
  std::map<std::uint32_t, bool> names;
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    ranks.push_back(spans_of(job.ranks[i], analysis, i));
    names.insert(ranks.back().is_pass.begin(), ranks.back().is_pass.end());
  }
  for (const auto& [name, is_pass] : names) {
    SpanTime& span = spans.emplace_back();
    span.name = job.names.text_of(name);
    span.is_pass = is_pass;
    for (const RankSpans& rank : ranks) {
      span.whole_ns.push_back(per_step(rank.whole_ns, name, analysis));
      span.own_ns.push_back(per_step(rank.own_ns, name, analysis));
    }
  }
  std::ranges::stable_sort(spans, std::greater(), &SpanTime::mean_own_ns);
  return spans;
}

std::vector<double> unmarked_ns(const Analysis& analysis, const std::vector<SpanTime>& spans) {
  std::vector<double> left;
  for (std::size_t rank = 0; rank < analysis.steps.front().ranks.size(); ++rank) {
    double ns = means_of(analysis, rank).of(Phase::kOutside);
    for (const SpanTime& span : spans) ns -= span.own_ns[rank];
    left.push_back(std::max(0.0, ns));
  }
  return left;
}

std::optional<Finding> find_long_span(const JobTrace& job, const Analysis& analysis) {
  const std::vector<SpanTime> spans = span_times(job, analysis);
  if (spans.empty()) return std::nullopt;
  const double enough_ns = kLongShare * means_of(analysis).step_ns;
  const SpanTime* longest = nullptr;
  for (const SpanTime& span : spans) {
    if (span.is_pass || least(span.own_ns) < enough_ns) continue;
    if (longest == nullptr || least(span.own_ns) > least(longest->own_ns)) longest = &span;
  }
  if (longest != nullptr) {
    Finding finding = long_span(fmt::format("is your span \"{}\"", longest->name),
                                least(longest->own_ns), analysis);
    finding.advice =
        "If it prepares data, do that beside the training: workers of the loader, prefetch, a "
        "cache. Else mark its parts with ronde.mark_span(\"...\") to see which of them takes long.";
    return finding;
  }
  const double unmarked = least(unmarked_ns(analysis, spans));
  if (unmarked < enough_ns) return std::nullopt;
  Finding finding = long_span("is outside Ronde and in no span", unmarked, analysis);
  finding.advice =
      "Loading data is often there. Mark it with ronde.mark_span(\"load\"), and the table of spans "
      "shows how long it takes.";
  return finding;
}

}  // namespace ronde::report
