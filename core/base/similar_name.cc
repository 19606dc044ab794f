#include "core/base/similar_name.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace ronde {
namespace {

/// Letters to insert, remove, replace, or exchange with the next one: the optimal string alignment
/// distance (Damerau, 1964).
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::vector<std::size_t> above = row;
  std::vector<std::size_t> before;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string_view similar_name(std::string_view word, std::span<const std::string_view> names) {
  std::string_view closest;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t differences = distance(word, name);
    if (differences >= least) continue;
    least = differences;
    closest = name;
  }
  return closest;
}

}  // namespace ronde
