// Watches the values of one reduction: the first of each segment that is not finite, of inputs and
// of results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/dtype.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// A value that is not finite.
struct OddValue {
  std::int64_t element = -1;  ///< In its segment; negative: there is none.
  int rank = -1;              ///< In the group: whose input it was; of results: this one.
  double value = 0;

  [[nodiscard]] bool exists() const noexcept { return element >= 0; }
  /// Takes the other one if that comes first, by element and rank.
  void keep_first(const OddValue& other) noexcept {
    if (!other.exists()) return;
    const bool later = other.element > element || (other.element == element && other.rank >= rank);
    if (!exists() || !later) *this = other;
  }
};

/// For one work at a time. Infinities are ordinary values of minima and maxima: there only NaN
/// counts. Threads: one.
class ValueWatch {
 public:
  /// The first odd values of a segment.
  struct Found {
    OddValue input;
    OddValue result;
  };

  /// `kernels` outlives it.
  explicit ValueWatch(const ReduceKernels& kernels) : kernels_(kernels) {}

  /// Begins with the work of `segments` segments.
  void begin(const Reduction& what, std::size_t segments) {
    dtype_ = what.dtype;
    only_nan_ = what.op == ReduceOp::kMin || what.op == ReduceOp::kMax;
    found_ = false;
    first_.assign(segments, {});
  }

  /// Looks at `bytes` of a segment's results, which begin `within` bytes in it. True if one is odd;
  /// then found() is.
  bool look_at_result(std::size_t segment, std::size_t within, const void* data,
                      std::size_t bytes) {
    const OddValue odd = first_odd(within, data, bytes, -1);
    if (!odd.exists()) return false;
    found_ = true;
    first_[segment].result.keep_first(odd);
    return true;
  }
  /// The same for an input of `rank`, which may be null.
  void look_at_input(int rank, std::size_t segment, std::size_t within, const void* data,
                     std::size_t bytes) {
    if (data != nullptr) first_[segment].input.keep_first(first_odd(within, data, bytes, rank));
  }

  /// Says that a result is odd on some rank.
  void tell() noexcept { found_ = true; }
  [[nodiscard]] bool found() const noexcept { return found_; }
  /// By segment.
  [[nodiscard]] const std::vector<Found>& first() const noexcept { return first_; }

 private:
  [[nodiscard]] OddValue first_odd(std::size_t within, const void* data, std::size_t bytes,
                                   int rank) const {
    const std::size_t width = size_of(dtype_);
    const std::size_t count = bytes / width;
    const std::size_t at = kernels_.first_nonfinite(dtype_, data, count, only_nan_);
    if (at == count) return {};
    OddValue odd{static_cast<std::int64_t>(within / width + at), rank};
    kernels_.cast(dtype_, static_cast<const std::byte*>(data) + at * width, DType::kFloat64,
                  &odd.value, 1);
    return odd;
  }

  const ReduceKernels& kernels_;
  DType dtype_ = DType::kFloat32;
  bool only_nan_ = false;
  bool found_ = false;
  std::vector<Found> first_;
};

}  // namespace ronde
