// Test data that is cheap to make and to check, and different on every rank and at every place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dtype.h"

namespace ronde::bench {

/// A short sequence of elements that repeats: small whole numbers, so that sums are exact in every
/// type (uint8 up to eleven ranks), or are rounded once (8-bit floating types).
class Pattern {
 public:
  /// What `rank` gives.
  static Pattern of_rank(DType dtype, int rank);
  /// What the sum over ranks 0 .. ranks-1 gives; bool: "or".
  static Pattern of_sum(DType dtype, int ranks);

  /// Writes elements `first`, first+1, ... to all of `to`.
  void fill(std::span<std::byte> to, std::size_t first) const;
  /// Whether `data` holds elements `first`, first+1, ...
  [[nodiscard]] bool matches(std::span<const std::byte> data, std::size_t first) const;

 private:
  Pattern(DType dtype, int first_rank, int last_rank);

  std::size_t width_;
  std::vector<std::byte> twice_;  // two periods, so that one is contiguous from any phase
};

}  // namespace ronde::bench
