#include "ops/sparse/row_sums.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace ronde {

void RowSums::add(std::span<const std::int64_t> indices, const std::byte* values,
                  std::size_t row_bytes) {
  rows_.reserve(rows_.size() + indices.size());
  for (const std::int64_t index : indices) {
    rows_.push_back({index, values});
    if (values != nullptr) values += row_bytes;
  }
}

void RowSums::group() {
  sort();
  begins_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i == 0 || rows_[i].index != rows_[i - 1].index) begins_.push_back(i);
  }
  begins_.push_back(rows_.size());
}

void RowSums::keep_apart() {
  sort();
  begins_.resize(rows_.size() + 1);
  std::iota(begins_.begin(), begins_.end(), std::size_t{0});
}

/// Sorts by the digits of the indices, the lowest first; a pass over memory for each.
void RowSums::sort() {
  constexpr std::size_t kFew = 256;
  constexpr unsigned kBits = 8;
  constexpr std::size_t kDigits = std::size_t{1} << kBits;
  const auto before = [](const Row& a, const Row& b) { return a.index < b.index; };
  if (std::is_sorted(rows_.begin(), rows_.end(), before)) return;
  if (rows_.size() < kFew) return std::stable_sort(rows_.begin(), rows_.end(), before);
  const std::int64_t most = std::max_element(rows_.begin(), rows_.end(), before)->index;
  sorted_.resize(rows_.size());
  for (unsigned shift = 0; shift < 63 && most >> shift != 0; shift += kBits) {
    const auto digit = [shift](const Row& row) {
      return static_cast<std::size_t>(row.index >> shift) % kDigits;
    };
    std::array<std::size_t, kDigits + 1> begins{};
    for (const Row& row : rows_) ++begins[digit(row) + 1];
    for (std::size_t i = 1; i < kDigits; ++i) begins[i] += begins[i - 1];
    for (const Row& row : rows_) sorted_[begins[digit(row)]++] = row;
    std::swap(rows_, sorted_);
  }
}

bool RowSums::has_repeats() const noexcept {
  for (std::size_t i = 1; i < count(); ++i) {
    if (index(i) == index(i - 1)) return true;
  }
  return false;
}

std::size_t RowSums::lower_bound(std::int64_t index) const noexcept {
  const auto found =
      std::partition_point(begins_.begin(), begins_.end() - 1,
                           [&](std::size_t begin) { return rows_[begin].index < index; });
  return static_cast<std::size_t>(found - begins_.begin());
}

void RowSums::sum(std::size_t group, const Reduction& what, const ReduceKernels& kernels,
                  std::size_t width, std::byte* out) {
  inputs_.clear();
  for (std::size_t i = begins_[group]; i < begins_[group + 1]; ++i) {
    inputs_.push_back(rows_[i].values);
  }
  kernels.reduce(what, inputs_, out, width);
}

}  // namespace ronde
