// Selects the largest elements of a vector, for topk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ronde {

/// The indices, ascending, of the `k` elements of largest magnitude. Zeros are left out; of equal
/// elements the first counts; NaN and infinity are largest. A sample of about a hundredth of the
/// elements gives a threshold, so that values are read once. `values` has fewer than 2^32 elements.
void select_top(std::span<const float> values, std::size_t k, std::vector<std::uint32_t>& indices);

/// As select_top(), but takes at most k of the elements that reach a threshold: the magnitude that
/// the share k / count of a sample reaches. A few more or fewer than k elements reach it.
/// Source: Lin et al., "Deep Gradient Compression", 2017 (hierarchical selection).
void select_sampled(std::span<const float> values, std::size_t k,
                    std::vector<std::uint32_t>& indices);

/// Keeps the `k` values of largest magnitude, as select_top(), with their ascending indices. Calls
/// dropped(index, value) for the others.
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
