#include "timeline/report/infer_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/ports/event_sink.h"

namespace ronde::report {
namespace {

constexpr std::size_t kFewestTimes = 5;
constexpr double kMostOfTheGaps = 0.5;  // must lie before the first operation of a step

/// Identifies repeated operations: lane, and bytes if unnamed.
using Key = std::pair<std::uint32_t, std::uint64_t>;

Key key_of(const OperationSpan& span, const std::set<std::uint32_t>& unnamed) {
  return {span.name, unnamed.contains(span.name) ? span.bytes : 0};
}

/// The numbers of the lanes that unnamed operations share.
std::set<std::uint32_t> unnamed_lanes(const Names& names) {
  std::set<std::string> lanes;
  for (const CollectiveTraits& row : kCollectives) lanes.insert(tensor_track(row.value, {}));
  std::set<std::uint32_t> numbers;
  for (std::uint32_t number = 0; number < names.size(); ++number) {
    if (lanes.contains(names.text_of(number))) numbers.insert(number);
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
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->first_submit_ns < b->first_submit_ns;
  });
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
  return std::all_of(ranks.begin(), ranks.end(), [&](const ByKey& rank) {
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
  const std::set<std::uint32_t> unnamed = unnamed_lanes(job.names);
  std::vector<ByKey> ranks;
  ranks.reserve(job.ranks.size());
  for (const RankTrace& rank : job.ranks) ranks.push_back(comings_of(rank, unnamed));
  const std::optional<Key> first = first_of_steps(ranks);
  if (!first) return {};
  return {job.names.text_of(first->first), steps_between(ranks, *first)};
}

}  // namespace ronde::report
