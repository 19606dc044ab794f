#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/ports/event_sink.h"
#include "timeline/report/analysis.h"

namespace ronde::report {
namespace {

constexpr std::size_t kFewestTimes = 5;
constexpr double kMostOfTheGaps = 0.5;  // must lie before the first operation of a step

/// Identifies repeated operations: track, and bytes if unnamed.
using Key = std::pair<std::uint32_t, std::uint64_t>;

Key key_of(const OperationSpan& span, const std::set<std::uint32_t>& unnamed) {
  return {span.name, unnamed.contains(span.name) ? span.bytes : 0};
}

/// The numbers of the tracks that unnamed operations share.
std::set<std::uint32_t> unnamed_tracks(const Names& names) {
  std::set<std::string> tracks;
  for (const CollectiveTraits& row : kCollectives) tracks.insert(tensor_track(row.value, {}));
  std::set<std::uint32_t> numbers;
  for (std::uint32_t number = 0; number < names.size(); ++number) {
    if (tracks.contains(names.text_of(number))) numbers.insert(number);
  }
  return numbers;
}

/// The occurrences of one key.
struct Comings {
  std::vector<std::int64_t> free_ns;
  std::int64_t gaps_ns = 0;  ///< Total time from free_ns until submission.
};

using ByKey = std::map<Key, Comings>;

ByKey comings_of(const RankTrace& rank, const std::set<std::uint32_t>& unnamed) {
  std::vector<const OperationSpan*> order;
  order.reserve(rank.operations.size());
  for (const OperationSpan& span : rank.operations) order.push_back(&span);
  std::ranges::stable_sort(order, {}, &OperationSpan::first_submit_ns);
  ByKey found;
  std::int64_t ended_ns = rank.first_ns;
  for (const OperationSpan* span : order) {
    Comings& comings = found[key_of(*span, unnamed)];
    comings.free_ns.push_back(std::min(ended_ns, span->first_submit_ns));
    comings.gaps_ns += std::max<std::int64_t>(0, span->first_submit_ns - ended_ns);
    ended_ns = std::max(ended_ns, span->end_ns);
  }
  return found;
}

bool as_often(const std::vector<ByKey>& ranks, const Key& key, std::size_t times) {
  return std::ranges::all_of(ranks, [&](const ByKey& rank) {
    const auto found = rank.find(key);
    return found != rank.end() && found->second.free_ns.size() == times;
  });
}

std::optional<Key> first_of_steps(const std::vector<ByKey>& ranks) {
  std::optional<Key> best;
  std::int64_t best_ns = 0;
  std::int64_t all_ns = 0;
  for (const auto& [key, comings] : ranks.front()) {
    all_ns += comings.gaps_ns;
    const std::size_t times = comings.free_ns.size();
    if (times < kFewestTimes || comings.gaps_ns <= best_ns || !as_often(ranks, key, times))
      continue;
    best = key;
    best_ns = comings.gaps_ns;
  }
  const bool most = static_cast<double>(best_ns) >= kMostOfTheGaps * static_cast<double>(all_ns);
  return most ? best : std::nullopt;
}

std::vector<Step> steps_between(const std::vector<ByKey>& ranks, const Key& key) {
  std::vector<Step> steps;
  const std::size_t times = ranks.front().at(key).free_ns.size();
  for (std::size_t i = 1; i + 1 < times; ++i) {
    Step& step = steps.emplace_back();
    step.number = i;
    for (const ByKey& rank : ranks) {
      const std::vector<std::int64_t>& free_ns = rank.at(key).free_ns;
      step.ranks.push_back({.start_ns = free_ns[i], .end_ns = free_ns[i + 1]});
    }
  }
  return steps;
}

}  // namespace

InferredSteps infer_steps(const JobTrace& job) {
  const std::set<std::uint32_t> unnamed = unnamed_tracks(job.names);
  std::vector<ByKey> ranks;
  ranks.reserve(job.ranks.size());
  for (const RankTrace& rank : job.ranks) ranks.push_back(comings_of(rank, unnamed));
  const std::optional<Key> first = first_of_steps(ranks);
  if (!first) return {};
  return {job.names.text_of(first->first), steps_between(ranks, *first)};
}

namespace {

enum class State : std::uint8_t { kBlocked, kWaiting, kNegotiating, kMoving, kMessage };

/// A moment at which a state begins (+1) or ends (-1).
struct Edge {
  std::int64_t time_ns;
  std::uint32_t bundle;
  State state;
  std::int8_t change;
};

using Edges = std::vector<Edge>;

void add_state(Edges& edges, State state, std::int64_t from_ns, std::int64_t to_ns,
               std::uint32_t bundle = 0) {
  if (to_ns <= from_ns) return;
  edges.push_back({from_ns, bundle, state, 1});
  edges.push_back({to_ns, bundle, state, -1});
}

Edges edges_of(const RankTrace& rank, const BundleIndex& index_of, const Analysis& analysis) {
  Edges edges;
  edges.reserve(rank.operations.size() * 6 + rank.waits.size() * 2);
  for (const NamedSpan& wait : rank.waits) {
    const State state = wait.is_message ? State::kMessage : State::kBlocked;
    add_state(edges, state, wait.start_ns, wait.end_ns);
  }
  for (const OperationSpan& span : rank.operations) {
    const std::uint32_t at = index_of.at(span.bundle);
    const Bundle& bundle = analysis.bundles[at];
    const std::int64_t moving = moving_from(span, bundle);
    add_state(edges, State::kWaiting, span.last_submit_ns, bundle.ready_ns, at);
    add_state(edges, State::kNegotiating, std::max(bundle.ready_ns, span.last_submit_ns), moving);
    add_state(edges, State::kMoving, moving, span.end_ns);
    if (rank.waits.empty()) {  // recorded without waits: it waits for all pending operations
      add_state(edges, State::kBlocked, span.last_submit_ns, span.end_ns);
    }
  }
  std::ranges::sort(edges, {}, &Edge::time_ns);
  return edges;
}

/// Interpolates the time without a core linearly between samples. Query times in order.
class CoreWaits {
 public:
  explicit CoreWaits(const std::vector<TotalSample>& samples) : samples_(samples) {}

  /// The increase since the last call, until `time_ns`.
  std::int64_t until(std::int64_t time_ns) {
    const std::int64_t before = last_ns_;
    last_ns_ = at(time_ns);
    return std::max<std::int64_t>(0,
                                  last_ns_ - before);  // a decrease: another thread is sampled now
  }

 private:
  [[nodiscard]] std::int64_t at(std::int64_t time_ns) {
    if (samples_.empty()) return 0;
    while (next_ < samples_.size() && samples_[next_].time_ns <= time_ns) ++next_;
    if (next_ == 0) return samples_.front().total_ns;
    const TotalSample& from = samples_[next_ - 1];
    if (next_ == samples_.size()) return from.total_ns;
    const TotalSample& to = samples_[next_];
    const double share = static_cast<double>(time_ns - from.time_ns) /
                         static_cast<double>(to.time_ns - from.time_ns);
    return from.total_ns +
           static_cast<std::int64_t>(share * static_cast<double>(to.total_ns - from.total_ns));
  }

  const std::vector<TotalSample>& samples_;
  std::size_t next_ = 0;
  std::int64_t last_ns_ = 0;
};

class Sweep {
 public:
  Sweep(const RankTrace& trace, std::size_t rank, Analysis& analysis)
      : rank_(rank), analysis_(analysis), core_waits_(trace.core_waits) {}

  void run(const Edges& edges) {
    std::int64_t time = analysis_.steps.front().ranks[rank_].start_ns;
    (void)core_waits_.until(time);
    for (const Edge& edge : edges) {
      if (edge.time_ns > time) {
        account(time, edge.time_ns);
        time = edge.time_ns;
      }
      apply(edge);
    }
    account(time, analysis_.steps.back().ranks[rank_].end_ns);
  }

 private:
  void apply(const Edge& edge) {
    counts_[static_cast<std::size_t>(edge.state)] += edge.change;
    if (edge.state != State::kWaiting) return;
    const std::pair<std::int64_t, std::uint32_t> entry{analysis_.bundles[edge.bundle].ready_ns,
                                                       edge.bundle};
    if (edge.change > 0) {
      awaited_.insert(entry);
    } else {
      awaited_.erase(entry);
    }
  }

  [[nodiscard]] bool is(State state) const { return counts_[static_cast<std::size_t>(state)] > 0; }

  [[nodiscard]] Phase phase() const {
    if (is(State::kMessage)) return Phase::kOther;
    if (!is(State::kBlocked)) return Phase::kOutside;
    if (is(State::kMoving)) return Phase::kWire;
    if (is(State::kNegotiating)) return Phase::kNegotiation;
    return is(State::kWaiting) ? Phase::kWaiting : Phase::kOther;
  }

  /// Adds the time between two edges to its steps.
  void account(std::int64_t from, std::int64_t to) {
    auto& steps = analysis_.steps;
    while (next_ < steps.size() && steps[next_].ranks[rank_].end_ns <= from) ++next_;
    for (std::size_t i = next_; i < steps.size(); ++i) {
      Split& split = steps[i].ranks[rank_];
      if (split.start_ns >= to) break;
      add(split, std::max(from, split.start_ns), std::min(to, split.end_ns));
    }
  }

  void add(Split& split, std::int64_t from, std::int64_t to) {
    const Phase now = phase();
    const std::int64_t ns = to - from;
    split.ns[static_cast<std::size_t>(now)] += ns;
    if (is(State::kMoving)) split.moving_ns += ns;
    const std::int64_t no_core_ns = std::min(ns, core_waits_.until(to));
    split.no_core_ns += no_core_ns;
    if (now == Phase::kOutside) split.slowed_ns += no_core_ns;
    if (now != Phase::kWaiting) return;
    split.add_awaited(analysis_.bundles[awaited_.rbegin()->second].last, ns);
  }

  const std::size_t rank_;
  Analysis& analysis_;
  CoreWaits core_waits_;
  std::size_t next_ = 0;
  std::array<int, 5> counts_{};
  std::set<std::pair<std::int64_t, std::uint32_t>>
      awaited_;  ///< Ordered by the time they were ready.
};

/// The step in which the operation ends on the rank; null if it is in none.
Step* step_of(const OperationSpan& span, std::size_t rank, std::vector<Step>& steps) {
  const auto step = std::ranges::partition_point(
      steps, [&](const Step& candidate) { return candidate.ranks[rank].end_ns < span.end_ns; });
  return step == steps.end() || step->ranks[rank].start_ns > span.end_ns ? nullptr : &*step;
}

void note_submissions(const OperationSpan& span, Split& split) {
  if (split.first_submit_ns == 0 || span.first_submit_ns < split.first_submit_ns) {
    split.first_submit_ns = span.first_submit_ns;
  }
  split.last_submit_ns = std::max(split.last_submit_ns, span.last_submit_ns);
}

/// Gives the wire's time in a step to packing, in the proportion of its operations.
void separate_packing(Split& split, double pack_ns, double moving_ns) {
  if (moving_ns <= 0) return;
  auto& wire = split.ns[static_cast<std::size_t>(Phase::kWire)];
  const double share = std::min(1.0, pack_ns / moving_ns);
  const auto packed = static_cast<std::int64_t>(share * static_cast<double>(wire));
  split.ns[static_cast<std::size_t>(Phase::kPack)] += packed;
  wire -= packed;
}

}  // namespace

std::int64_t moving_from(const OperationSpan& span, const Bundle& bundle) {
  const std::int64_t all_started = std::max(bundle.started_ns, span.start_ns);
  return all_started < span.end_ns ? all_started : span.start_ns;
}

void sweep_rank(const RankTrace& rank, std::size_t index, const BundleIndex& index_of,
                Analysis& analysis) {
  Sweep(rank, index, analysis).run(edges_of(rank, index_of, analysis));
  std::vector<Step>& steps = analysis.steps;
  std::vector<double> pack_ns(steps.size());
  std::vector<double> moving_ns(steps.size());
  for (const OperationSpan& span : rank.operations) {
    Step* const step = step_of(span, index, steps);
    if (step == nullptr) continue;
    note_submissions(span, step->ranks[index]);
    const Bundle& bundle = analysis.bundles[index_of.at(span.bundle)];
    pack_ns[static_cast<std::size_t>(step - steps.data())] += static_cast<double>(span.pack_ns);
    moving_ns[static_cast<std::size_t>(step - steps.data())] +=
        static_cast<double>(span.end_ns - moving_from(span, bundle));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    separate_packing(steps[i].ranks[index], pack_ns[i], moving_ns[i]);
  }
}

}  // namespace ronde::report
