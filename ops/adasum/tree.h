// Adaptive summation: the tree of pairs, and the coefficients of the ranks' tensors in its result.
// Adasum(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
// Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2021.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ops/kernels/double_double.h"

namespace ronde {

/// The ranks begin .. end-1, whose tensors a node of the tree combines.
struct AdasumNode {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Two nodes that become one.
struct AdasumPair {
  AdasumNode a;
  AdasumNode b;
};

/// The dot products of a pair, over all elements of a tensor.
struct AdasumProducts {
  DoubleDouble ab;
  DoubleDouble aa;
  DoubleDouble bb;
};

/// Levels of the tree for `ranks` ranks: ceil(log2 ranks).
std::size_t adasum_levels(std::size_t ranks) noexcept;

/// The pairs of one level. Neighbours come first: ((0 1) (2 3)) ((4 5) 6). A node without a
/// neighbour goes up as it is.
std::vector<AdasumPair> adasum_pairs(std::size_t ranks, std::size_t level);

/// Combines a pair: multiplies the coefficients of its ranks by those of the formula. A factor is 1
/// where a norm is zero, so that the result is the plain sum.
void combine_pair(const AdasumPair& pair, const AdasumProducts& products,
                  std::span<DoubleDouble> coefficients) noexcept;

}  // namespace ronde
