// Which elements of a vector are its largest: what top-k sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ronde {

/// The indices, ascending, of the `k` elements of largest magnitude that are not zero (all of them
/// where there are fewer); of equal ones the first. NaN and infinity count as largest.
/// A sample of about a hundredth of the elements tells which can be among them, so that the values
/// are read once. `values` has fewer than 2^32 elements.
void select_top(std::span<const float> values, std::size_t k, std::vector<std::uint32_t>& indices);

/// As select_top, but only of elements that reach the magnitude of which the sample has the share
/// k / count: a few more or fewer than k of them do, of which at most k are taken.
/// Source: Lin et al., "Deep Gradient Compression", 2017 (hierarchical selection).
void select_sampled(std::span<const float> values, std::size_t k,
                    std::vector<std::uint32_t>& indices);

/// Of parallel lists of ascending indices and their values, keeps the `k` of largest magnitude, as
/// select_top does, and calls back for the others.
template <class Dropped>
void keep_top(std::size_t k, std::vector<std::uint32_t>& indices, std::vector<float>& values,
              const Dropped& dropped) {
  if (indices.size() <= k) return;
  std::vector<std::uint32_t> kept;
  select_top(values, k, kept);
  std::size_t at = 0, next = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (next < kept.size() && kept[next] == i) {
      indices[at] = indices[i];
      values[at++] = values[i];
      ++next;
    } else {
      dropped(indices[i], values[i]);
    }
  }
  indices.resize(at);
  values.resize(at);
}

}  // namespace ronde
