// What choices turned out to take, and which to make next. Pure: equal observations on all ranks
// lead to equal choices.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "ops/compression/auto/cost_model.h"

namespace ronde {

/// Loads that are alike: of about the same size, width and share of low rank, and of one class.
using LoadClass = std::tuple<int, int, int, int>;
LoadClass class_of(const TensorLoad& load, Accuracy accuracy) noexcept;

/// Observations of loads that are alike. A prediction counts until a choice has been seen a few
/// times; what might beat the best by enough is tried, and what came near it is tried again once in
/// a while: a machine that others use too makes the same choice now fast, now slow.
class CostHistory {
 public:
  /// A choice is known once it was seen this often; its cost is the median of the last ones.
  static constexpr std::size_t kTries = 3;
  static constexpr std::size_t kKept = 4;
  /// One in so many choices goes to a rival of the best: what seems to take less than kRival times
  /// as long. So do two before: from kFirstRival on, each twice as late.
  static constexpr std::size_t kRivalEvery = 32;
  static constexpr std::size_t kFirstRival = 8;
  static constexpr double kRival = 1.2;

  /// What to choose among `kinds`, whose predicted seconds are given in the same order.
  CodecKind choose(std::span<const CodecKind> kinds, std::span<const double> predicted);
  /// Notes what the choice took. True where that has drifted: the last kKept times it took more
  /// than kDrift times what it took when it became known, or less than a kDrift-th. Everything
  /// seen is forgotten then.
  bool observe(CodecKind kind, double seconds);
  /// Whether what was chosen last is known, so that observations may become rare. Not among the
  /// first kRivalEvery choices, as first times are often slow ones.
  [[nodiscard]] bool settled() const noexcept;
  [[nodiscard]] CodecKind chosen() const noexcept { return chosen_; }
  /// Seconds that it took, 0 where it was never seen.
  [[nodiscard]] double seen(CodecKind kind) const noexcept;

 private:
  static constexpr double kDrift = 1.5;

  struct Seen {
    std::array<double, kKept> last{};
    std::size_t count = 0;
    double known_s = 0;  // when it became known
    [[nodiscard]] double least() const noexcept;
    [[nodiscard]] double typical() const noexcept;  // the median, the lower one of two
    [[nodiscard]] double most() const noexcept;
  };
  [[nodiscard]] CodecKind best_of(std::span<const CodecKind> kinds,
                                  std::span<const double> predicted) const noexcept;
  [[nodiscard]] CodecKind rival_of(CodecKind best, std::span<const CodecKind> kinds,
                                   std::span<const double> predicted) const noexcept;
  [[nodiscard]] bool rival_is_due() const noexcept;
  [[nodiscard]] double estimate(CodecKind kind, double predicted) const noexcept;
  Seen& of(CodecKind kind) noexcept { return seen_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const Seen& of(CodecKind kind) const noexcept {
    return seen_[static_cast<std::size_t>(kind)];
  }

  std::array<Seen, kCodecKinds> seen_;
  CodecKind chosen_ = kDense;
  bool rival_ = false;  // what was chosen last is a rival of the best
  std::size_t choices_ = 0;
};

}  // namespace ronde
