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

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double binomial_tail(std::uint64_t hits, std::uint64_t trials, double p) {
  if (hits == 0 || p >= 1) return 1;
  double sum = 0;
  double log_ways = 0;  // of choosing k of the trials
  for (std::uint64_t k = 1; k <= trials; ++k) {
    const auto rest = static_cast<double>(trials - k);
    log_ways += std::log(rest + 1) - std::log(static_cast<double>(k));
    if (k < hits) continue;
    sum += std::exp(log_ways + static_cast<double>(k) * std::log(p) + rest * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

Line fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = mean(x);
  const double mean_y = mean(y);
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  if (xx == 0 || yy == 0) return {mean_y, 0, 0};
  return {mean_y - xy / xx * mean_x, xy / xx, xy * xy / (xx * yy)};
}

Histogram histogram(const std::vector<double>& values, double unit, std::size_t buckets) {
  Histogram made{unit, std::vector<std::uint64_t>(buckets)};
  for (const double value : values) {
    const double exponent = value > unit ? std::floor(std::log2(value / unit)) : 0;
    ++made.counts[std::min(static_cast<std::size_t>(exponent), buckets - 1)];
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
