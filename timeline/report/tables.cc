#include "timeline/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ronde::report {
namespace {

std::int64_t slowest_ns(const Step& step) {
  std::int64_t slowest = 0;
  for (const Split& split : step.ranks) slowest = std::max(slowest, split.duration_ns());
  return slowest;
}

std::int64_t waited_ns(const Step& step) {
  return std::accumulate(
      step.ranks.begin(), step.ranks.end(), std::int64_t{0},
      [](std::int64_t sum, const Split& split) { return sum + split.of(Phase::kWaiting); });
}

std::int64_t total_ns(const TensorCost& cost) { return cost.execution_ns + cost.negotiation_ns; }

/// Keeps the first `most` by `before`.
template <typename T, typename Before>
void keep_first(std::vector<T>& values, std::size_t most, Before before) {
  const std::size_t kept = std::min(most, values.size());
  std::partial_sort(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(kept),
                    values.end(), before);
  values.resize(kept);
}

}  // namespace

std::vector<TensorRow> costliest_tensors(const JobTrace& job, std::size_t most) {
  std::vector<TensorRow> rows;
  for (const auto& [name, cost] : job.tensors) rows.push_back({job.names.text_of(name), cost});
  keep_first(rows, most, [](const TensorRow& a, const TensorRow& b) {
    return total_ns(a.cost) > total_ns(b.cost);
  });
  return rows;
}

std::vector<const Bundle*> costliest_bundles(const Analysis& analysis, std::size_t most) {
  std::vector<const Bundle*> rows;
  for (const Bundle& bundle : analysis.bundles) rows.push_back(&bundle);
  keep_first(rows, most,
             [](const Bundle* a, const Bundle* b) { return a->moving_ns() > b->moving_ns(); });
  return rows;
}

std::string name_of(const Bundle& bundle, const JobTrace& job) {
  const std::string& first = job.names.text_of(bundle.span->name);
  if (bundle.span->tensors < 2) return first;
  return fmt::format("{} and {} more", first, bundle.span->tensors - 1);
}

std::vector<ChosenStep> chosen_steps(const Analysis& analysis) {
  std::vector<std::size_t> order(analysis.steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<ChosenStep> chosen;
  if (order.empty()) return chosen;
  const auto add = [&](std::size_t index, const char* why) {
    const auto known = std::find_if(chosen.begin(), chosen.end(),
                                    [&](const ChosenStep& step) { return step.index == index; });
    if (known == chosen.end()) chosen.push_back({index, why});
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return slowest_ns(analysis.steps[a]) < slowest_ns(analysis.steps[b]);
  });
  add(order[order.size() / 2], "typical");
  add(order.back(), "slowest");
  const auto most_waiting = std::max_element(order.begin(), order.end(), [&](auto a, auto b) {
    return waited_ns(analysis.steps[a]) < waited_ns(analysis.steps[b]);
  });
  add(*most_waiting, "waits most");
  add(order.front(), "fastest");
  return chosen;
}

}  // namespace ronde::report
