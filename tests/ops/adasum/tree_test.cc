#include "ops/adasum/tree.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

namespace ronde {
namespace {

/// A level as text: "0-1+2-3" is ranks 0 and 1 with ranks 2 and 3.
std::string text_of(std::size_t ranks, std::size_t level) {
  std::string text;
  for (const auto& [a, b] : adasum_pairs(ranks, level)) {
    text += std::to_string(a.begin) + "-" + std::to_string(a.end - 1) + "+" +
            std::to_string(b.begin) + "-" + std::to_string(b.end - 1) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("Adasum's tree: neighbours come first") {
  CHECK(adasum_levels(8) == 3);
  CHECK(text_of(8, 0) == "0-0+1-1 2-2+3-3 4-4+5-5 6-6+7-7 ");
  CHECK(text_of(8, 1) == "0-1+2-3 4-5+6-7 ");
  CHECK(text_of(8, 2) == "0-3+4-7 ");
}

TEST_CASE("Adasum's tree: a node without a neighbour goes up as it is") {
  CHECK(adasum_levels(1) == 0);
  CHECK(adasum_levels(3) == 2);
  CHECK(text_of(3, 0) == "0-0+1-1 ");
  CHECK(text_of(3, 1) == "0-1+2-2 ");
  CHECK(adasum_levels(7) == 3);
  CHECK(text_of(7, 1) == "0-1+2-3 4-5+6-6 ");
  CHECK(text_of(7, 2) == "0-3+4-6 ");
}

TEST_CASE("Adasum's tree: a pair is scaled by the formula, or not where a norm is zero") {
  std::array<DoubleDouble, 3> values{DoubleDouble{1, 0}, DoubleDouble{2, 0}, DoubleDouble{1, 0}};
  const AdasumPair pair{{0, 2}, {2, 3}};
  combine_pair(pair, {{1, 0}, {4, 0}, {2, 0}}, values);
  CHECK(values[0].hi == 0.875);
  CHECK(values[1].hi == 1.75);
  CHECK(values[2].hi == 0.75);
  combine_pair(pair, {{0, 0}, {0, 0}, {2, 0}}, values);
  CHECK(values[0].hi == 0.875);
  CHECK(values[2].hi == 0.75);
}

TEST_CASE("numbers of two doubles: products and quotients keep what a double loses") {
  const DoubleDouble third = DoubleDouble{1, 0} / DoubleDouble{3, 0};
  const DoubleDouble left = third * DoubleDouble{3, 0} - DoubleDouble{1, 0};
  CHECK(std::abs(left.hi) < 0x1p-100);
  const DoubleDouble square = exact_product(1 + 0x1p-40, 1 + 0x1p-40);
  CHECK(square.hi == 1 + 0x1p-39);
  CHECK(square.lo == 0x1p-80);
  CHECK(std::isnan((DoubleDouble{1, 0} / DoubleDouble{std::nan(""), 0}).hi));
}

}  // namespace ronde
