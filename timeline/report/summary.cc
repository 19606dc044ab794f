#include "timeline/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "timeline/report/statistics.h"

namespace ronde::report {
namespace {

void add(const Split& split, Means& sums) {
  sums.step_ns += static_cast<double>(split.duration_ns());
  sums.moving_ns += static_cast<double>(split.moving_ns);
  sums.overlapped_ns += static_cast<double>(split.overlapped_ns());
  sums.no_core_ns += static_cast<double>(split.no_core_ns);
  for (std::size_t i = 0; i < kPhases; ++i) sums.phase_ns[i] += static_cast<double>(split.ns[i]);
}

/// `value` with three significant digits.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/// The nominal speed of the slowest network interface; nothing on one host.
std::string interface_note(const JobTrace& job) {
  const RecordingInfo* slowest = nullptr;
  for (const RankTrace& rank : job.ranks) {
    const RecordingInfo& info = rank.info;
    if (info.network_interface.empty()) continue;
    if (slowest == nullptr || info.network_megabits < slowest->network_megabits) slowest = &info;
  }
  if (slowest == nullptr) return {};
  if (slowest->network_megabits == 0) {
    return fmt::format(" Between hosts data goes by {} of {}, which does not tell its speed.",
                       slowest->network_interface, slowest->host);
  }
  return fmt::format(
      " Between hosts data goes by network interfaces, the slowest of which, {} of {}, claims "
      "{} Mbit/s: {:.2f} GB/s for all ranks of a host together.",
      slowest->network_interface, slowest->host, slowest->network_megabits,
      slowest->network_megabits / 8e3);
}

}  // namespace

Means means_of(const Analysis& analysis, std::optional<std::size_t> rank) {
  Means means;
  double count = 0;
  for (const Step& step : analysis.steps) {
    for (std::size_t i = 0; i < step.ranks.size(); ++i) {
      if (rank && *rank != i) continue;
      add(step.ranks[i], means);
      count += 1;
    }
  }
  if (count == 0) return means;
  for (double* sum : {&means.step_ns, &means.moving_ns, &means.overlapped_ns, &means.no_core_ns}) {
    *sum /= count;
  }
  for (double& sum : means.phase_ns) sum /= count;
  return means;
}

double median_step_ns(const Analysis& analysis) {
  std::vector<double> durations;
  for (const Step& step : analysis.steps) {
    durations.push_back(static_cast<double>(step.ranks.front().duration_ns()));
  }
  return median(std::move(durations));
}

std::string_view name_of(Phase phase) noexcept {
  constexpr std::array<std::string_view, kPhases> kNames = {
      "outside Ronde", "waiting for ranks", "negotiation", "pack", "wire", "other waits"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string_view key_of(Phase phase) noexcept {
  constexpr std::array<std::string_view, kPhases> kKeys = {
      "outside_ms", "waiting_ms", "negotiation_ms", "pack_ms", "wire_ms", "other_ms"};
  return kKeys[static_cast<std::size_t>(phase)];
}

std::string steps_note(const Analysis& analysis) {
  constexpr const char* kMark = "ronde.mark_step(), or DistributedOptimizer";
  if (!analysis.by_steps) return fmt::format("No steps were marked ({}): by time instead.", kMark);
  if (analysis.inferred_first.empty()) return {};
  return fmt::format(
      "No steps were marked ({}): each is taken to begin where all operations before \"{}\" have "
      "ended.",
      kMark, analysis.inferred_first);
}

double memory_gbps(const JobTrace& job) {
  double least = 0;
  for (const RankTrace& rank : job.ranks) {
    if (rank.memory_gbps > 0) {
      least = least > 0 ? std::min(least, rank.memory_gbps) : rank.memory_gbps;
    }
  }
  return least;
}

std::string bandwidth_note(const JobTrace& job) {
  std::string note =
      "Bus: bytes a second through each rank's link. Best: what the fastest of a path's large "
      "bundles reached, so what it can do.";
  if (const double gbps = memory_gbps(job); gbps > 0) {
    note += fmt::format(
        " A thread of the slowest rank copied memory at {:.1f} GB/s as recording ended: inside a "
        "host no path is much faster.",
        gbps);
  }
  return note + interface_note(job);
}

std::string human_time(double ns) {
  if (ns < 0.5) return "0";
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns >= 1e9) return three_digits(ns / 1e9) + " s";
  if (ns >= 1e6) return three_digits(ns / 1e6) + " ms";
  return three_digits(ns / 1e3) + " us";
}

std::string human_bytes(double bytes) {
  if (bytes >= 1e9) return three_digits(bytes / 1e9) + " GB";
  if (bytes >= 1e6) return three_digits(bytes / 1e6) + " MB";
  if (bytes >= 1e3) return three_digits(bytes / 1e3) + " KB";
  return fmt::format("{:.0f} B", bytes);
}

std::string human_rate(double gbps) { return human_bytes(gbps * 1e9) + "/s"; }

std::string_view unit_of(const Analysis& analysis) noexcept {
  return analysis.by_steps ? "step" : "window";
}

std::string units_text(const Analysis& analysis) {
  const std::size_t count = analysis.steps.size();
  return fmt::format("{} {}{}{}", count, unit_of(analysis), count == 1 ? "" : "s",
                     analysis.by_steps ? "" : " of time");
}

void wrap(std::string& out, const std::string& text, std::size_t indent) {
  constexpr std::size_t kWidth = 96;
  std::istringstream words(text);
  std::size_t column = indent;
  for (std::string word; words >> word; column += word.size() + 1) {
    if (column > indent && column + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ';
    out += word;
  }
  out += '\n';
}

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
    const auto known = std::ranges::find(chosen, index, &ChosenStep::index);
    if (known == chosen.end()) chosen.push_back({index, why});
  };
  std::ranges::stable_sort(order, {},
                           [&](std::size_t step) { return slowest_ns(analysis.steps[step]); });
  add(order[order.size() / 2], "typical");
  add(order.back(), "slowest");
  const auto most_waiting = std::ranges::max_element(
      order, {}, [&](std::size_t step) { return waited_ns(analysis.steps[step]); });
  add(*most_waiting, "waits most");
  add(order.front(), "fastest");
  return chosen;
}

}  // namespace ronde::report
