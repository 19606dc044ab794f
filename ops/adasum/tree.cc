#include "ops/adasum/tree.h"

#include <algorithm>
#include <bit>

namespace ronde {
namespace {

constexpr bool is_zero(DoubleDouble value) noexcept { return value.hi == 0; }

/// 1 - dot / (2 norm)
DoubleDouble factor_of(DoubleDouble dot, DoubleDouble norm) noexcept {
  if (is_zero(norm)) return {1, 0};
  return DoubleDouble{1, 0} - dot / DoubleDouble{2 * norm.hi, 2 * norm.lo};
}

void scale(const AdasumNode& node, DoubleDouble factor, std::span<DoubleDouble> coefficients) {
  for (DoubleDouble& value : coefficients.subspan(node.begin, node.end - node.begin)) {
    value = value * factor;
  }
}

}  // namespace

std::size_t adasum_levels(std::size_t ranks) noexcept {
  return static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(ranks, 1) - 1));
}

std::vector<AdasumPair> adasum_pairs(std::size_t ranks, std::size_t level) {
  const std::size_t width = std::size_t{1} << level;
  std::vector<AdasumPair> pairs;
  for (std::size_t begin = 0; begin + width < ranks; begin += 2 * width) {
    const std::size_t middle = begin + width;
    pairs.push_back({{begin, middle}, {middle, std::min(middle + width, ranks)}});
  }
  return pairs;
}

void combine_pair(const AdasumPair& pair, const AdasumProducts& products,
                  std::span<DoubleDouble> coefficients) noexcept {
  scale(pair.a, factor_of(products.ab, products.aa), coefficients);
  scale(pair.b, factor_of(products.ab, products.bb), coefficients);
}

}  // namespace ronde
