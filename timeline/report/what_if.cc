#include "timeline/report/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "timeline/report/straggler.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

constexpr double kWorthShare = 0.01;  // of a step
constexpr double kGoodFit = 0.5;      // of the line of costs, as r squared
constexpr double kMegabyte = 1e6;

/// Source: the alpha-beta model of Thakur, Rabenseifner and Gropp (2005).
struct LinkCost {
  double start_ns = 0;     ///< Of one message.
  double ns_per_byte = 0;  ///< On a link.
};

/// Rounds of messages, and how often each byte passes a link, of an allreduce.
struct Shape {
  double rounds = 0;
  double passes = 0;
};

std::optional<Shape> shape_of(std::string_view algorithm, double ranks) {
  const double levels = std::ceil(std::log2(ranks));
  const double once = 2 * (ranks - 1) / ranks;
  if (algorithm == "ring") return Shape{2 * (ranks - 1), once};
  if (algorithm == "halving_doubling") return Shape{2 * levels, once};
  if (algorithm == "tree") return Shape{2 * levels, 2 * levels};
  return std::nullopt;
}

const PathCost* fitted_path(const Analysis& analysis) {
  if (analysis.paths.empty()) return nullptr;
  const PathCost& path = analysis.paths.front();
  return path.cost.r2 >= kGoodFit && path.cost.slope > 0 ? &path : nullptr;
}

/// The algorithm in "ALLREDUCE ring over tcp", or nothing.
std::string_view algorithm_of(const PathCost& path) {
  std::string_view text = path.path;
  constexpr std::string_view kKind = "ALLREDUCE ";
  if (!text.starts_with(kKind)) return {};
  text.remove_prefix(kKind.size());
  return text.substr(0, text.find(' '));
}

/// Predictions for the costliest path.
class Model {
 public:
  Model(const PathCost& path, const Analysis& analysis)
      : path_(path), analysis_(analysis), means_(means_of(analysis)) {
    const auto steps = static_cast<double>(analysis.steps.size());
    bundles_ = static_cast<double>(path.bundles) / steps;
    bytes_ = static_cast<double>(path.bytes) / steps;
    start_ns_ = std::max(0.0, path.cost.offset);
  }

  void add_all(double ranks, std::vector<WhatIf>& list) const {
    add_fusion(list);
    add_compression(list);
    add_algorithms(ranks, list);
  }

 private:
  /// What is saved of a step where `moving_ns` less data moves in it: the exposed share of that.
  [[nodiscard]] double exposed(double moving_ns) const {
    if (means_.moving_ns <= 0) return 0;
    const double blocked = means_.of(Phase::kWire) + means_.of(Phase::kPack);
    return std::min(moving_ns * blocked / means_.moving_ns, blocked);
  }

  void add_fusion(std::vector<WhatIf>& list) const {
    if (bundles_ < 2) return;
    const auto threshold = std::bit_ceil(static_cast<std::uint64_t>(std::max(1.0, bytes_)));
    const double saved_ns = exposed(start_ns_ * (bundles_ - 1));
    list.push_back(
        {analysis_.fusion.one_by_one > 0.8
             ? fmt::format(
                   "submit all tensors of a {} before the first wait: one bundle for {:.0f}",
                   unit_of(analysis_), bundles_)
             : fmt::format("one bundle a {} for {:.0f} (RONDE_FUSION_THRESHOLD={} or more)",
                           unit_of(analysis_), bundles_, threshold),
         saved_ns});
  }

  void add_compression(std::vector<WhatIf>& list) const {
    if (algorithm_of(path_).empty() || algorithm_of(path_) == "compressed") return;
    const double moving_ns = path_.cost.slope * bytes_;
    list.push_back({"half as many bytes (Compression.fp16 or bf16), coding not counted",
                    exposed(moving_ns / 2)});
    list.push_back({"a quarter of the bytes (Compression.int8), coding not counted",
                    exposed(moving_ns * 3 / 4)});
  }

  void add_algorithms(double ranks, std::vector<WhatIf>& list) const {
    const std::string_view current = algorithm_of(path_);
    const auto shape = shape_of(current, ranks);
    if (!shape || ranks < 3) return;
    const LinkCost link{start_ns_ / shape->rounds, path_.cost.slope / shape->passes};
    for (const std::string_view name : {"ring", "halving_doubling", "tree"}) {
      if (name == current) continue;
      const Shape other = *shape_of(name, ranks);
      const double starts_ns = bundles_ * link.start_ns * (shape->rounds - other.rounds);
      const double bytes_ns = bytes_ * link.ns_per_byte * (shape->passes - other.passes);
      list.push_back({fmt::format("the algorithm {} (RONDE_ALGORITHM={})", name, name),
                      exposed(starts_ns + bytes_ns)});
    }
  }

  const PathCost& path_;
  const Analysis& analysis_;
  const Means means_;
  double bundles_ = 0;  ///< A step, as the next.
  double bytes_ = 0;
  double start_ns_ = 0;  ///< Of a bundle.
};

/// What needs no model: less waiting, more overlap.
void add_measured(const JobTrace& job, const Analysis& analysis, std::vector<WhatIf>& list) {
  const Means means = means_of(analysis);
  for (const Straggler& straggler : find_stragglers(job, analysis)) {
    list.push_back(
        {fmt::format("rank {} as fast as the others", job.ranks[straggler.index].info.rank),
         straggler.wait_ns});
  }
  list.push_back({"all moving hidden behind compute (submit each tensor as soon as it is there)",
                  means.of(Phase::kWire) + means.of(Phase::kPack)});
}

}  // namespace

std::vector<WhatIf> what_ifs(const JobTrace& job, const Analysis& analysis) {
  std::vector<WhatIf> list;
  if (analysis.steps.empty()) return list;
  add_measured(job, analysis, list);
  if (const PathCost* path = fitted_path(analysis)) {
    Model(*path, analysis).add_all(static_cast<double>(job.ranks.front().info.size), list);
  }
  const double least_ns = kWorthShare * means_of(analysis).step_ns;
  std::erase_if(list, [=](const WhatIf& change) { return change.saved_ns < least_ns; });
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.saved_ns > b.saved_ns; });
  return list;
}

std::string cost_model(const Analysis& analysis) {
  if (const PathCost* path = fitted_path(analysis)) {
    return fmt::format("A bundle of {} takes {} and {} per MB here.", path->path,
                       human_time(std::max(0.0, path->cost.offset)),
                       human_time(path->cost.slope * kMegabyte));
  }
  if (analysis.paths.empty()) return "No data moved.";
  return "Bundles are too alike in size, or too uneven in time, to tell what other ones would "
         "cost.";
}

double fusion_efficiency(const Analysis& analysis) {
  const PathCost* path = fitted_path(analysis);
  if (path == nullptr) return -1;
  const double starts_ns = std::max(0.0, path->cost.offset) * static_cast<double>(path->bundles);
  const double bytes_ns = path->cost.slope * static_cast<double>(path->bytes);
  return bytes_ns / (starts_ns + bytes_ns);
}

}  // namespace ronde::report
