#include "ops/compression/auto/cost_history.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/compression/spec.h"

namespace ronde {
namespace {

// Factors on the cost of a choice by how often it was seen: predictions err, and the first time
// pays for new memory.
constexpr std::array<double, CostHistory::kTries> kBenefit{0.7, 0.4, 0.8};
// Another choice must take less than this share of the current one's time, or of a less lossy
// one's.
constexpr double kBetter = 0.98;

bool leaves_over(CodecKind kind) { return kind != kDense && default_spec(kind).error_feedback; }

}  // namespace

LoadClass class_of(const TensorLoad& load, Accuracy accuracy) noexcept {
  const int size = static_cast<int>(std::lround(4 * std::log2(std::max(1.0, load.elements))));
  const double share = load.low_rank_elements / std::max(1.0, load.elements);
  const int low_rank = static_cast<int>(std::lround(-2 * std::log2(std::max(share, 1e-4))));
  return {static_cast<int>(accuracy), static_cast<int>(load.width), size, low_rank};
}

double CostHistory::Seen::least() const noexcept {
  return *std::min_element(last.begin(),
                           last.begin() + static_cast<std::ptrdiff_t>(std::min(count, kKept)));
}

double CostHistory::Seen::most() const noexcept {
  return *std::max_element(last.begin(), last.end());
}

double CostHistory::Seen::typical() const noexcept {
  std::array<double, kKept> ordered = last;
  const std::size_t kept = std::min(count, kKept);
  std::sort(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(kept));
  return ordered[(kept - 1) / 2];
}

double CostHistory::estimate(CodecKind kind, double predicted) const noexcept {
  const Seen& seen = of(kind);
  if (seen.count == 0) return kBenefit[0] * predicted;
  return seen.count < kTries ? kBenefit[seen.count] * seen.least() : seen.typical();
}

CodecKind CostHistory::best_of(std::span<const CodecKind> kinds,
                               std::span<const double> predicted) const noexcept {
  CodecKind best = kDense;
  double least = 0;
  bool first = true;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const double cost = estimate(kinds[i], predicted[i]) * (kinds[i] == chosen_ ? kBetter : 1);
    if (first || cost < kBetter * least) {
      best = kinds[i];
      least = cost;
    }
    first = false;
  }
  return best;
}

/// The choice near the best that was seen least often; the best if there is none. Both have error
/// feedback or neither has: a change would have to send the residual by itself.
CodecKind CostHistory::rival_of(CodecKind best, std::span<const CodecKind> kinds,
                                std::span<const double> predicted) const noexcept {
  const double limit = kRival * of(best).typical();
  CodecKind rival = best;
  std::size_t fewest = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == best || leaves_over(kinds[i]) != leaves_over(best)) continue;
    if (estimate(kinds[i], predicted[i]) >= limit) continue;
    if (rival == best || of(kinds[i]).count < fewest) {
      rival = kinds[i];
      fewest = of(rival).count;
    }
  }
  return rival;
}

bool CostHistory::rival_is_due() const noexcept {
  const bool early = choices_ >= kFirstRival && std::has_single_bit(choices_);
  return choices_ % kRivalEvery == 0 || (early && choices_ < kRivalEvery);
}

CodecKind CostHistory::choose(std::span<const CodecKind> kinds, std::span<const double> predicted) {
  const CodecKind best = best_of(kinds, predicted);
  ++choices_;
  const bool due = rival_is_due() && of(best).count >= kTries;
  chosen_ = due ? rival_of(best, kinds, predicted) : best;
  rival_ = chosen_ != best;
  return chosen_;
}

bool CostHistory::observe(CodecKind kind, double seconds) {
  Seen& seen = of(kind);
  seen.last[seen.count++ % kKept] = seconds;
  if (seen.count == kTries) seen.known_s = seen.typical();
  if (seen.count < kTries + kKept) return false;
  if (seen.least() <= kDrift * seen.known_s && seen.most() * kDrift >= seen.known_s) return false;
  seen_ = {};
  return true;
}

bool CostHistory::settled() const noexcept {
  return !rival_ && choices_ > kRivalEvery && of(chosen_).count >= kTries;
}

double CostHistory::seen(CodecKind kind) const noexcept {
  return of(kind).count == 0 ? 0 : of(kind).typical();
}

}  // namespace ronde
