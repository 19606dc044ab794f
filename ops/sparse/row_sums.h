// Brings rows of several lists together by their index, and adds up those of one index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ports/reduce_kernels.h"

namespace ronde {

/// Calls: clear(), add() for each list, group() or keep_apart(), then the rest. Threads: one at a
/// time.
class RowSums {
 public:
  void clear() noexcept { rows_.clear(); }
  /// Adds a list, whose indices are not negative. `values` has rows of `row_bytes`, is only viewed,
  /// and needs no alignment.
  void add(std::span<const std::int64_t> indices, const std::byte* values, std::size_t row_bytes);
  /// Groups the rows by their index.
  void group();
  /// Instead of group(): sorts the rows; each is a group of its own.
  void keep_apart();

  /// The number of groups: of different indices, unless rows are kept apart.
  [[nodiscard]] std::size_t count() const noexcept { return begins_.size() - 1; }
  /// The index of one group. Groups are in ascending order of indices.
  [[nodiscard]] std::int64_t index(std::size_t group) const noexcept {
    return rows_[begins_[group]].index;
  }
  /// True where two groups have one index.
  [[nodiscard]] bool has_repeats() const noexcept;
  /// The first group whose index is not below `index`.
  [[nodiscard]] std::size_t lower_bound(std::int64_t index) const noexcept;
  /// Reduces the rows of one group, in the order in which they were added. `width`: elements of a
  /// row.
  void sum(std::size_t group, const Reduction& what, const ReduceKernels& kernels,
           std::size_t width, std::byte* out);

 private:
  struct Row {
    std::int64_t index;
    const std::byte* values;
  };
  void sort();

  std::vector<Row> rows_;
  std::vector<Row> sorted_;  // kept
  std::vector<std::size_t> begins_{0};
  std::vector<const void*> inputs_;  // kept
};

}  // namespace ronde
