#include "timeline/report/statistics.h"

#include <doctest/doctest.h>

namespace ronde::report {

TEST_CASE("statistics: median and mean, also of nothing") {
  CHECK(median({}) == 0);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(mean({1, 2, 6}) == 3);
}

TEST_CASE(
    "statistics: the median's error shrinks with the root of the count, and outliers do not "
    "count") {
  CHECK(median_error({}) == 0);
  CHECK(median_error({7}) == 0);
  CHECK(median_error({5, 5, 5, 5}) == 0);
  // Quartiles 1 and 3: 2 apart.
  CHECK(median_error({0, 1, 2, 3}) == doctest::Approx(1.2533 / 1.349 * 2 / 2));
  std::vector<double> values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 4);
  CHECK(median_error(values) == doctest::Approx(1.2533 / 1.349 * 2 / 10));
  values.back() = 1e9;
  CHECK(median_error(values) == doctest::Approx(1.2533 / 1.349 * 2 / 10));
}

TEST_CASE("statistics: the tail of coin tosses") {
  CHECK(binomial_tail(0, 10, 0.5) == 1);
  CHECK(binomial_tail(10, 10, 0.5) == doctest::Approx(1.0 / 1024));
  CHECK(binomial_tail(1, 2, 0.5) == doctest::Approx(0.75));
  CHECK(binomial_tail(700, 1000, 0.5) < 1e-30);
}

TEST_CASE("statistics: a histogram counts between round edges") {
  CHECK(histogram({0.5, 1, 2, 3, 5, 1e9}, 1, 5).counts ==
        std::vector<std::uint64_t>{2, 2, 1, 0, 1});
}

TEST_CASE("statistics: samples that differ have a small p, equal ones a large") {
  std::vector<double> low;
  std::vector<double> high;
  for (int i = 0; i < 20; ++i) {
    low.push_back(i);
    high.push_back(i + 30);
  }
  CHECK(rank_sum_p(low, high) < 1e-6);
  CHECK(rank_sum_p(low, low) > 0.9);
  CHECK(rank_sum_p({}, low) == 1);
}

}  // namespace ronde::report
