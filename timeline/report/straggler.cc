#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "timeline/report/spans.h"
#include "timeline/report/statistics.h"
#include "timeline/report/summary.h"
#include "timeline/report/verdict.h"

namespace ronde::report {
namespace {

constexpr double kCostlyShare = 0.02;   // of a step; steps with less waiting do not count
constexpr double kHeldShare = 0.8;      // of all waiting is in the costly steps
constexpr double kWorthShare = 0.03;    // of all steps' time
constexpr double kFalseChance = 0.001;  // of naming a rank that is like the others
constexpr double kExcessBlame = 0.25;   // above an equal share of the waiting
constexpr double kOftenShare = 0.3;     // of the steps; below: "now and then"

double blamed_in(const Step& step) {
  return static_cast<double>(
      std::accumulate(step.blamed_ns.begin(), step.blamed_ns.end(), std::int64_t{0}));
}

std::size_t most_blamed(const Step& step) {
  return static_cast<std::size_t>(std::ranges::max_element(step.blamed_ns) -
                                  step.blamed_ns.begin());
}

/// Sums over steps.
struct Blame {
  std::vector<double> ns;           ///< By rank.
  std::vector<std::uint64_t> late;  ///< Steps in which the rank was blamed most.
  std::vector<std::uint64_t> hits;  ///< Costly steps among them.
  std::uint64_t costly_steps = 0;
  double total_ns = 0;
};

/// Counts over the longest waits only: others are noise if a rank is late now and then.
void count_costly(const Analysis& analysis, Blame& blame) {
  std::vector<const Step*> steps;
  for (const Step& step : analysis.steps) steps.push_back(&step);
  std::ranges::sort(steps, std::greater(), [](const Step* step) { return blamed_in(*step); });
  const double least_ns =
      kCostlyShare * median_step_ns(analysis) * static_cast<double>(blame.ns.size() - 1);
  double held_ns = 0;
  for (const Step* step : steps) {
    if (held_ns >= kHeldShare * blame.total_ns || blamed_in(*step) < least_ns) return;
    held_ns += blamed_in(*step);
    ++blame.costly_steps;
    ++blame.hits[most_blamed(*step)];
  }
}

Blame blame_of(const Analysis& analysis, std::size_t ranks) {
  Blame blame{std::vector<double>(ranks), std::vector<std::uint64_t>(ranks),
              std::vector<std::uint64_t>(ranks)};
  for (const Step& step : analysis.steps) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      blame.ns[rank] += static_cast<double>(step.blamed_ns[rank]);
    }
    blame.total_ns += blamed_in(step);
    if (blamed_in(step) > 0) ++blame.late[most_blamed(step)];
  }
  count_costly(analysis, blame);
  return blame;
}

/// A part of a step: its time on the straggler, and the median of the other ranks.
struct Stretch {
  std::string text;
  double own_ns = 0;
  double others_ns = 0;
  double weight = 1;  ///< The user's own marks are preferred unless they explain much less.
  [[nodiscard]] double excess_ns() const noexcept { return own_ns - others_ns; }
};

/// The median of `length` over the rank's steps.
template <typename Length>
Stretch stretch_of(const Analysis& analysis, std::size_t index, std::string text, Length length) {
  Stretch stretch{std::move(text)};
  std::vector<double> others;
  for (std::size_t rank = 0; rank < analysis.steps.front().ranks.size(); ++rank) {
    std::vector<double> lengths;
    for (const Step& step : analysis.steps) {
      if (step.ranks[rank].first_submit_ns != 0) {
        lengths.push_back(static_cast<double>(length(step.ranks[rank])));
      }
    }
    const double typical = mean(lengths);
    if (rank == index) {
      stretch.own_ns = typical;
    } else {
      others.push_back(typical);
    }
  }
  stretch.others_ns = median(std::move(others));
  return stretch;
}

constexpr double kUsersWeight = 1.25;
constexpr double kBindingsWeight = 1.1;

void add_marked(const JobTrace& job, const Analysis& analysis, std::size_t index,
                std::vector<Stretch>& stretches) {
  for (const SpanTime& span : span_times(job, analysis)) {
    if (span.whole_ns[index] <= 0) continue;
    std::vector<double> others = span.whole_ns;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(index));
    stretches.push_back({.text = fmt::format("its \"{}\"", span.name),
                         .own_ns = span.whole_ns[index],
                         .others_ns = median(std::move(others)),
                         .weight = span.is_pass ? kBindingsWeight : kUsersWeight});
  }
}

/// The part where it loses most.
Stretch slowest_stretch(const JobTrace& job, const Analysis& analysis, std::size_t index) {
  std::vector<Stretch> stretches;
  add_marked(job, analysis, index, stretches);
  if (analysis.by_steps) {
    stretches.push_back(stretch_of(
        analysis, index, "what it does before its first operation (loading data, forward)",
        [](const Split& split) { return split.first_submit_ns - split.start_ns; }));
    stretches.push_back(stretch_of(
        analysis, index, "the time from its first to its last operation (backward, mostly)",
        [](const Split& split) { return split.last_submit_ns - split.first_submit_ns; }));
  }
  if (stretches.empty()) return {};
  return *std::ranges::max_element(stretches, {},
                                   [](const Stretch& one) { return one.excess_ns() * one.weight; });
}

std::string how_often(const Straggler& straggler, const Analysis& analysis) {
  const auto steps = static_cast<double>(analysis.steps.size());
  const auto late = static_cast<double>(straggler.late_steps);
  if (static_cast<double>(straggler.late_costly) >= kOftenShare * steps) {
    return fmt::format("it is last in {:.0f} % of the {}s", 100 * late / steps, unit_of(analysis));
  }
  return fmt::format("now and then: it is last in {} of the {} {}s that wait longest, of {}",
                     straggler.late_costly, straggler.costly_steps, unit_of(analysis),
                     analysis.steps.size());
}

}  // namespace

std::vector<Straggler> find_stragglers(const JobTrace& job, const Analysis& analysis) {
  std::vector<Straggler> found;
  const std::size_t ranks = job.ranks.size();
  if (ranks < 2) return found;
  const Blame blame = blame_of(analysis, ranks);
  const double fair = 1 / static_cast<double>(ranks);
  const double waits = static_cast<double>(analysis.steps.size()) * static_cast<double>(ranks - 1);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Straggler candidate{rank, blame.ns[rank] / waits, blame.late[rank], blame.hits[rank],
                              blame.costly_steps};
    const bool worth = candidate.wait_ns >= kWorthShare * means_of(analysis).step_ns;
    const bool most = blame.ns[rank] >= (fair + kExcessBlame) * blame.total_ns;
    if (!worth || !most) continue;
    if (binomial_tail(candidate.late_costly, candidate.costly_steps, fair) > kFalseChance) continue;
    found.push_back(candidate);
  }
  std::ranges::sort(found, std::greater(), &Straggler::wait_ns);
  return found;
}

/// "Rank 3", "Worker 4".
std::string capital_label_of(const RecordingInfo& info) {
  std::string label = label_of(info);
  label.front() = label.front() == 'r' ? 'R' : 'W';
  return label;
}

Finding describe(const Straggler& straggler, const JobTrace& job, const Analysis& analysis) {
  const RecordingInfo& info = job.ranks[straggler.index].info;
  const Means means = means_of(analysis);
  Finding finding{.cause = Cause::kStraggler, .rank = info.rank};
  finding.share = straggler.wait_ns / means.step_ns;
  finding.text = fmt::format(
      "{} ({}) holds the others up: {}, and each other rank waits {} per {} for it ({:.0f} % of "
      "{}).",
      capital_label_of(info), info.host, how_often(straggler, analysis),
      human_time(straggler.wait_ns), unit_of(analysis), 100 * finding.share,
      human_time(means.step_ns));
  const Stretch slow = slowest_stretch(job, analysis, straggler.index);
  if (slow.excess_ns() > 0.3 * straggler.wait_ns) {
    finding.text +=
        fmt::format(" It is slow outside Ronde, not in its network: {} takes {}, on the others {}.",
                    slow.text, human_time(slow.own_ns), human_time(slow.others_ns));
  }
  if (const std::string awaited = most_awaited(job, analysis, straggler.index); !awaited.empty()) {
    finding.text += fmt::format(" The others wait for it most in \"{}\".", awaited);
  }
  finding.advice = fmt::format(
      "Compare {} with the others: other work on its cores, clocks, its share of the data, "
      "its loader. What it is slow at can be narrowed down with ronde.mark_span(\"...\").",
      label_of(info));
  return finding;
}

}  // namespace ronde::report
