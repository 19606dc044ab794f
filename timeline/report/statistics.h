// Statistics for reports.
#pragma once

#include <cstdint>
#include <vector>

namespace ronde::report {

/// The median (the upper of two middle values); 0 for no values.
double median(std::vector<double> values);

/// The standard error of the median, from the quartiles; 0 for fewer than two values.
double median_error(std::vector<double> values);

double mean(const std::vector<double>& values);

/// Probability of at least `hits` in `trials` with probability `p` each.
double binomial_tail(std::uint64_t hits, std::uint64_t trials, double p);

/// Histogram with round edges: 1, 2, 5, 10, 20, 50, ... times `unit`. `counts[i]` has the values
/// from edge i to edge i + 1. The first also has smaller values, the last larger ones.
struct Histogram {
  double unit = 1;
  std::vector<std::uint64_t> counts;
};

Histogram histogram(const std::vector<double>& values, double unit, std::size_t buckets);

/// Mann-Whitney's two-sided p for equal medians, by the normal approximation.
double rank_sum_p(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ronde::report
