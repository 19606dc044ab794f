#include "timeline/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace ronde::report {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_error(std::vector<double> values) {
  if (values.size() < 2) return 0;
  constexpr double kOfNormal =
      1.2533 / 1.349;  // error of the median by the distance of the quartiles, for normal values
  std::sort(values.begin(), values.end());
  const double apart = values[values.size() * 3 / 4] - values[values.size() / 4];
  return kOfNormal * apart / std::sqrt(static_cast<double>(values.size()));
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double binomial_tail(std::uint64_t hits, std::uint64_t trials, double p) {
  if (hits == 0 || p >= 1) return 1;
  double sum = 0;
  double log_ways = 0;  // log of the ways to choose k of the trials
  for (std::uint64_t k = 1; k <= trials; ++k) {
    const auto rest = static_cast<double>(trials - k);
    log_ways += std::log(rest + 1) - std::log(static_cast<double>(k));
    if (k < hits) continue;
    sum += std::exp(log_ways + static_cast<double>(k) * std::log(p) + rest * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

namespace {

/// 1, 2, 5, 10, 20, 50, ...
double round_edge(std::size_t index) {
  constexpr double kInDecade[] = {1, 2, 5};
  return kInDecade[index % 3] * std::pow(10.0, static_cast<double>(index / 3));
}

}  // namespace

Histogram histogram(const std::vector<double>& values, double unit, std::size_t buckets) {
  Histogram made{unit, std::vector<std::uint64_t>(buckets)};
  for (const double value : values) {
    std::size_t bucket = 0;
    while (bucket + 1 < buckets && value >= unit * round_edge(bucket + 1)) ++bucket;
    ++made.counts[bucket];
  }
  return made;
}

double rank_sum_p(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<std::pair<double, bool>> all;
  all.reserve(a.size() + b.size());
  for (const double value : a) all.emplace_back(value, false);
  for (const double value : b) all.emplace_back(value, true);
  std::sort(all.begin(), all.end());
  double rank_sum = 0;
  double ties = 0;
  for (std::size_t i = 0, j = 0; i < all.size(); i = j) {
    while (j < all.size() && all[j].first == all[i].first) ++j;
    const auto tied = static_cast<double>(j - i);
    ties += tied * tied * tied - tied;
    const double rank = static_cast<double>(i + j + 1) / 2;
    for (std::size_t k = i; k < j; ++k) rank_sum += all[k].second ? rank : 0;
  }
  const auto m = static_cast<double>(a.size());
  const auto n = static_cast<double>(b.size());
  const double variance = m * n / 12 * (m + n + 1 - ties / ((m + n) * (m + n - 1)));
  if (!(variance > 0)) return 1;
  const double distance = std::abs(rank_sum - n * (m + n + 1) / 2) - 0.5;
  return std::erfc(std::max(distance, 0.0) / std::sqrt(2 * variance));
}

}  // namespace ronde::report
