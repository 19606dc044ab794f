// The times that choices of `auto` took, and the next choice. Pure: equal observations on all ranks
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

/// Groups loads of one accuracy and about the same size, width and share of low rank.
using LoadClass = std::tuple<int, int, int, int>;
LoadClass class_of(const TensorLoad& load, Accuracy accuracy) noexcept;

/// Observations of the loads of one class. The prediction of a choice counts until the choice has
/// been seen a few times. Choices that may beat the best are tried. Near rivals are tried again now
/// and then: on a shared machine the same choice is fast at one time and slow at another.
class CostHistory {
 public:
  /// A choice is known after this many observations; its cost is the median of the last kKept.
  static constexpr std::size_t kTries = 3;
  static constexpr std::size_t kKept = 4;
  /// One in so many choices goes to a rival: a choice that takes less than kRival times as long as
  /// the best. So do the choices number kFirstRival and twice that.
  static constexpr std::size_t kRivalEvery = 32;
  static constexpr std::size_t kFirstRival = 8;
  static constexpr double kRival = 1.2;

  /// The next choice among `kinds`. `predicted`: their seconds, in the same order.
  CodecKind choose(std::span<const CodecKind> kinds, std::span<const double> predicted);
  /// Notes how long the choice took. Returns true, and forgets all observations, if the cost has
  /// drifted: by a factor of kDrift in each of the last kKept times since the choice became known.
  bool observe(CodecKind kind, double seconds);
  /// True if the last choice is known, so that observations may become rare. False among the first
  /// kRivalEvery choices: first times are often slow.
  [[nodiscard]] bool settled() const noexcept;
  [[nodiscard]] CodecKind chosen() const noexcept { return chosen_; }
  /// Seconds that it took; 0 if it was never seen.
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
  bool rival_ = false;  // the last choice is a rival of the best
  std::size_t choices_ = 0;
};

}  // namespace ronde
