#include "timeline/report/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "timeline/report/statistics.h"
#include "timeline/report/summary.h"
#include "timeline/report/verdict.h"

namespace ronde::report {
namespace {

constexpr double kWorthSaving = 0.01;  // of a step
constexpr double kMegabyte = 1e6;
constexpr double kTwice = 2;      // standard errors on either side
constexpr double kPrecise = 0.2;  // of a saving: narrower ranges are shown as one figure
// Coding beside other work takes 4 +- 1 times as long as measured at the end of the recording.
// Measured: 3.8 to 6.1 times, in jobs on two busy cores.
constexpr double kBusyCoding = 4;
constexpr double kBusyError = 1;
constexpr double kShapeError = 0.25;  // of the alpha-beta model's prediction
constexpr double kCodedRounds = 0.1;  // more rounds of a coded allreduce: see cost_model.h of ops
constexpr double kInt8Share = 0.26;   // of the bytes of fp32, with its scales
constexpr double kSmallBundle =
    1 << 20;                          // bytes; fusion of such is suggested without a known saving
constexpr double kMostlyAlone = 0.8;  // share of operations

/// An allreduce's rounds of messages, and how often each byte passes a link.
/// Source: the alpha-beta model of Thakur, Rabenseifner and Gropp (2005).
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

const PathCost* costliest_way(const Analysis& analysis) {
  return analysis.ways.empty() ? nullptr : &analysis.ways.front();
}

const PathCost* fitted_way(const Analysis& analysis) {
  const PathCost* way = costliest_way(analysis);
  return way != nullptr && way->cost.known ? way : nullptr;
}

/// The one algorithm of dense allreduces over the way's data plane; empty where there are several.
std::string_view algorithm_of(const PathCost& way, const Analysis& analysis) {
  std::optional<std::string_view> found;
  if (way.path.collective != Collective::kAllreduce) return {};
  for (const PathCost& cost : analysis.paths) {
    const Path& path = cost.path;
    if (path.collective != way.path.collective || path.backend != way.path.backend) continue;
    if (cost.compressed) continue;
    if (found) return {};
    found = path.algorithm;
  }
  return found.value_or(std::string_view());
}

/// The highest cost of any rank, as the slowest delays the others.
CodingCost coding_of(const JobTrace& job) {
  CodingCost most;
  for (const RankTrace& rank : job.ranks) {
    most.fp16_ns = std::max(most.fp16_ns, rank.coding.fp16_ns);
    most.int8_ns = std::max(most.int8_ns, rank.coding.int8_ns);
  }
  return most;
}

/// Predictions for the costliest path.
class Model {
 public:
  Model(const PathCost& way, const JobTrace& job, const Analysis& analysis)
      : way_(way), job_(job), analysis_(analysis), means_(means_of(analysis)) {
    steps_ = static_cast<double>(analysis.steps.size());
    bundles_ = static_cast<double>(way.bundles) / steps_;
    bytes_ = static_cast<double>(way.bytes) / steps_;
    ranks_ = static_cast<double>(job.ranks.front().info.size);
  }

  void add_all(std::vector<WhatIf>& list) const {
    add_fusion(list);
    if (!way_.cost.known) return;
    add_compression(list);
    add_algorithms(list);
  }

 private:
  /// The saving of a step if data moves `moving_ns` less: the exposed share of that.
  [[nodiscard]] double exposed(double moving_ns) const {
    if (means_.moving_ns <= 0) return 0;
    const double blocked = means_.of(Phase::kWire) + means_.of(Phase::kPack);
    return std::clamp(moving_ns * blocked / means_.moving_ns, 0.0, blocked);
  }

  void add(std::vector<WhatIf>& list, Change kind, std::string text, Estimate saved) const {
    list.push_back({kind, std::move(text), exposed(saved.ns),
                    exposed(saved.ns - kTwice * saved.error),
                    exposed(saved.ns + kTwice * saved.error)});
  }

  /// Advice by the reason that keeps tensors apart.
  [[nodiscard]] std::string fusion_text() const {
    const std::string_view unit = unit_of(analysis_);
    if (analysis_.fusion.one_by_one > kMostlyAlone) {
      return fmt::format("submit all tensors of a {} before the first wait: one bundle for {:.0f}",
                         unit, bundles_);
    }
    const auto limit = static_cast<double>(job_.ranks.front().info.fusion_bytes);
    if (limit >= bytes_) {
      return fmt::format("submit all tensors of a {} at once, as a group: one bundle for {:.0f}",
                         unit, bundles_);
    }
    return fmt::format("one bundle a {} for {:.0f} (RONDE_FUSION_THRESHOLD={} or more)", unit,
                       bundles_, std::bit_ceil(static_cast<std::uint64_t>(std::max(1.0, bytes_))));
  }

  /// Time to copy one bundle of all bytes into the fusion buffer and out of it.
  [[nodiscard]] double packing_ns() const {
    const double gbps = memory_gbps(job_);
    return gbps > 0 ? 2 * bytes_ / gbps : 0;
  }

  /// Adds the time of a step's bundles if each moves `share` of its bytes.
  void add_bundles(CostSum& sum, double weight, double share) const {
    for (const CostPoint& point : way_.cost.points) {
      sum.add(weight * point.count / steps_, share * point.bytes);
    }
  }

  /// The bundles' current time per step, for bundles of one size without a curve.
  [[nodiscard]] double now_ns() const {
    double sum = 0;
    for (const CostPoint& point : way_.cost.points) sum += point.count * point.time.ns / steps_;
    return sum;
  }

  void add_fusion(std::vector<WhatIf>& list) const {
    if (bundles_ < 2) return;
    if (way_.cost.known) {
      CostSum saved(way_.cost);
      add_bundles(saved, 1, 1);
      saved.add(-1, bytes_);
      const Estimate moving = saved.total();
      return add(list, Change::kFusion, fusion_text(), {moving.ns - packing_ns(), moving.error});
    }
    if (bytes_ / bundles_ > kSmallBundle) return;
    const double most_ns = exposed(now_ns() * (1 - 1 / bundles_) - packing_ns());
    list.push_back({Change::kFusion, fusion_text() + "; all are of one size, so only trying tells",
                    most_ns / 2, 0, most_ns});
  }

  void add_codec(std::vector<WhatIf>& list, const char* text, double share, double coding) const {
    if (coding <= 0) return;
    CostSum saved(way_.cost);
    add_bundles(saved, 1, 1);
    add_bundles(saved, -1, share);
    const Estimate moving = saved.total();
    const double coding_ns = coding * bytes_;
    const double rounds_ns = kCodedRounds * bundles_ * cost_at(way_.cost, 0).ns;
    add(list, Change::kCompression, text,
        {moving.ns - kBusyCoding * coding_ns - rounds_ns,
         std::hypot(moving.error, kBusyError * coding_ns)});
  }

  void add_compression(std::vector<WhatIf>& list) const {
    const std::optional<Collective>& collective = way_.path.collective;
    if (way_.compressed || !collective || traits_of(*collective).codecs != Codecs::kAny) return;
    const CodingCost coding = coding_of(job_);
    add_codec(list, "half as many bytes (Compression.fp16 or bf16)", 0.5, coding.fp16_ns);
    add_codec(list, "a quarter of the bytes (Compression.int8)", kInt8Share, coding.int8_ns);
  }

  void add_algorithms(std::vector<WhatIf>& list) const {
    const std::string_view current = algorithm_of(way_, analysis_);
    const auto shape = shape_of(current, ranks_);
    if (!shape || ranks_ < 3) return;
    // The model does not cover trees, which have fewer messages in flight.
    for (const std::string_view name : {"ring", "halving_doubling"}) {
      if (name == current) continue;
      const Shape other = *shape_of(name, ranks_);
      const double rounds = bundles_ * (1 - other.rounds / shape->rounds);
      const double passes = bytes_ * (1 - other.passes / shape->passes);
      const double saved = way_.cost.start_ns * rounds + way_.cost.ns_per_byte * passes;
      add(list, Change::kAlgorithm,
          fmt::format("the algorithm {} (RONDE_ALGORITHM={})", name, name),
          {saved, kShapeError * saved});
    }
  }

  const PathCost& way_;
  const JobTrace& job_;
  const Analysis& analysis_;
  const Means means_;
  double steps_ = 1;
  double bundles_ = 0;  ///< Per step, like the next.
  double bytes_ = 0;
  double ranks_ = 0;
};

/// Changes that need no model: less waiting, more overlap.
void add_measured(const JobTrace& job, const Analysis& analysis, std::vector<WhatIf>& list) {
  const Means means = means_of(analysis);
  for (const Straggler& straggler : find_stragglers(job, analysis)) {
    list.push_back(
        {Change::kRank,
         fmt::format("{} as fast as the others", label_of(job.ranks[straggler.index].info)),
         straggler.wait_ns, straggler.wait_ns, straggler.wait_ns});
  }
  const double blocked_ns = means.of(Phase::kWire) + means.of(Phase::kPack);
  const double room_ns = std::max(0.0, means.of(Phase::kOutside) - means.overlapped_ns);
  const double most_ns = std::min(blocked_ns, room_ns);
  list.push_back({Change::kOverlap,
                  fmt::format("{} (submit each tensor as soon as it is there)",
                              blocked_ns > room_ns ? "moving hidden behind all compute there is"
                                                   : "all moving hidden behind compute"),
                  most_ns, 0, most_ns});
}

/// Uncertainty of the median step: two standard errors.
double step_noise_ns(const Analysis& analysis) {
  std::vector<double> steps;
  for (const Step& step : analysis.steps) {
    double sum = 0;
    for (const Split& split : step.ranks) sum += static_cast<double>(split.duration_ns());
    steps.push_back(sum / static_cast<double>(step.ranks.size()));
  }
  return kTwice * median_error(std::move(steps));
}

/// One figure for a narrow range, else both ends, formatted by `say`.
template <class Say>
std::string range_text(const WhatIf& change, const Say& say) {
  if (change.least_ns <= 0) return "up to " + say(change.most_ns);
  const bool narrow = change.most_ns - change.least_ns <= kPrecise * change.saved_ns;
  return narrow ? say(change.saved_ns) : say(change.least_ns) + " to " + say(change.most_ns);
}

bool is_worth_telling(const WhatIf& change, double least_ns) {
  const bool is_bound = change.least_ns <= 0 && change.kind != Change::kOverlap;
  if (!is_bound) return change.saved_ns >= least_ns;
  // Only a bound: it must be large to be shown.
  return change.kind == Change::kFusion && change.saved_ns >= 2 * least_ns;
}

}  // namespace

std::vector<WhatIf> what_ifs(const JobTrace& job, const Analysis& analysis) {
  std::vector<WhatIf> list;
  if (analysis.steps.empty()) return list;
  add_measured(job, analysis, list);
  if (const PathCost* way = costliest_way(analysis)) Model(*way, job, analysis).add_all(list);
  double least_ns = kWorthSaving * means_of(analysis).step_ns;
  if (analysis.by_steps) least_ns = std::max(least_ns, step_noise_ns(analysis));
  std::erase_if(list, [=](const WhatIf& change) { return !is_worth_telling(change, least_ns); });
  std::ranges::stable_sort(list, std::greater(), &WhatIf::saved_ns);
  return list;
}

const WhatIf* best_of(const std::vector<WhatIf>& changes, Change kind) {
  const auto found = std::ranges::find(changes, kind, &WhatIf::kind);
  return found == changes.end() ? nullptr : &*found;
}

std::string share_text(const WhatIf& change, double step_ns) {
  const auto percent = [step_ns](double ns) { return fmt::format("{:.0f}", 100 * ns / step_ns); };
  return range_text(change, percent) + " %";
}

std::string time_text(const WhatIf& change) { return range_text(change, human_time); }

std::string cost_model(const Analysis& analysis) {
  const PathCost* way = costliest_way(analysis);
  if (way == nullptr) return "No data moved.";
  if (!way->cost.known) {
    return "Bundles are too alike in size to tell what other ones would cost.";
  }
  return fmt::format("A bundle of {} takes {} and {} per MB here.", way->path.text(),
                     human_time(way->cost.start_ns), human_time(way->cost.ns_per_byte * kMegabyte));
}

double fusion_efficiency(const Analysis& analysis) {
  const PathCost* way = fitted_way(analysis);
  if (way == nullptr) return -1;
  const double starts_ns = way->cost.start_ns * static_cast<double>(way->bundles);
  const double bytes_ns = way->cost.ns_per_byte * static_cast<double>(way->bytes);
  return bytes_ns / (starts_ns + bytes_ns);
}

}  // namespace ronde::report
