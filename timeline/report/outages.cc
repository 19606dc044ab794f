#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/ports/event_sink.h"
#include "timeline/report/summary.h"
#include "timeline/report/verdict.h"

namespace ronde::report {
namespace {

constexpr double kWorthNaming = 0.01;  // of the trace's time

/// An outage, as the rank at one end saw it.
struct Seen {
  const RankTrace* rank = nullptr;
  const NamedSpan* span = nullptr;

  [[nodiscard]] std::int64_t duration_ns() const noexcept { return span->end_ns - span->start_ns; }
};

/// All outages, by their begin.
std::vector<Seen> all_outages(const JobTrace& job) {
  std::vector<Seen> all;
  for (const RankTrace& rank : job.ranks) {
    for (const NamedSpan& span : rank.outages) all.push_back({&rank, &span});
  }
  std::ranges::sort(all, {}, [](const Seen& seen) { return seen.span->start_ns; });
  return all;
}

/// The time in which at least one of them lasted.
std::int64_t covered_ns(const std::vector<Seen>& outages) {
  std::int64_t covered = 0;
  std::int64_t until = std::numeric_limits<std::int64_t>::min();
  for (const Seen& seen : outages) {
    covered += std::max<std::int64_t>(0, seen.span->end_ns - std::max(until, seen.span->start_ns));
    until = std::max(until, seen.span->end_ns);
  }
  return covered;
}

/// From the first event of any rank to the last; 0 without events.
std::int64_t whole_ns(const JobTrace& job) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const RankTrace& rank : job.ranks) {
    if (rank.last_ns == 0) continue;  // without an event
    first = std::min(first, rank.first_ns);
    last = std::max(last, rank.last_ns);
  }
  return first < last ? last - first : 0;
}

}  // namespace

std::optional<Finding> find_outages(const JobTrace& job) {
  const std::vector<Seen> outages = all_outages(job);
  const std::int64_t covered = covered_ns(outages);
  const std::int64_t whole = whole_ns(job);
  if (whole <= 0) return std::nullopt;
  const double share = static_cast<double>(covered) / static_cast<double>(whole);
  if (outages.empty() || share < kWorthNaming) return std::nullopt;
  const Seen longest = *std::ranges::max_element(outages, {}, &Seen::duration_ns);
  // "OUTAGE rank 1"
  const std::string peer = job.names.text_of(longest.span->name).substr(kOutageSpan.size() + 1);
  Finding finding{.cause = Cause::kOutage, .share = share};
  finding.text = fmt::format(
      "Connections between hosts did not work for {} ({:.0f} % of the trace); the longest outage "
      "was of {} between {} and {}.",
      human_time(static_cast<double>(covered)), 100 * share,
      human_time(static_cast<double>(longest.duration_ns())), label_of(longest.rank->info), peer);
  finding.advice =
      "Other ranks wait meanwhile, so that times below are longer than without it. Look at the "
      "network between these hosts.";
  return finding;
}

}  // namespace ronde::report
