// Small statistics of reports.
#pragma once

#include <cstdint>
#include <vector>

namespace ronde::report {

/// The middle value (of two, the upper); 0 where there is none.
double median(std::vector<double> values);

/// The standard error of the median, by the quartiles; 0 for less than two values.
double median_error(std::vector<double> values);

double mean(const std::vector<double>& values);

/// Chance of at least `hits` in `trials`, each hit having chance `p`.
double binomial_tail(std::uint64_t hits, std::uint64_t trials, double p);

/// Counts by powers of two: `counts[i]` of values in [2^i, 2^(i+1)) * `unit`; the first also has
/// what is below, the last what is above.
struct Histogram {
  double unit = 1;
  std::vector<std::uint64_t> counts;
};

Histogram histogram(const std::vector<double>& values, double unit, std::size_t buckets);

/// Whether b's middle differs from a's: Mann-Whitney's two-sided p by the normal approximation.
double rank_sum_p(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ronde::report
