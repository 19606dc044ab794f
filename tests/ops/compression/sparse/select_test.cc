// Selection of the largest elements, against a sort of all of them.
#include "ops/compression/sparse/select.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/ops/compression/codecs.h"

namespace ronde::test {
namespace {

/// By sorting: the first of equals, no zeros, ascending.
std::vector<std::uint32_t> by_sort(const std::vector<float>& values, std::size_t k) {
  std::vector<std::uint32_t> all(values.size());
  std::iota(all.begin(), all.end(), 0U);
  std::erase_if(all, [&](std::uint32_t i) { return values[i] == 0.0F; });
  const auto size = [&](std::uint32_t i) {
    return std::isnan(values[i]) ? std::numeric_limits<double>::max() : std::abs(values[i]);
  };
  std::stable_sort(all.begin(), all.end(), [&](auto a, auto b) { return size(a) > size(b); });
  all.resize(std::min(all.size(), k));
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::uint32_t> top(const std::vector<float>& values, std::size_t k) {
  std::vector<std::uint32_t> indices;
  select_top(values, k, indices);
  return indices;
}

}  // namespace

TEST_CASE("The largest are those that a sort finds, on every instruction set") {
  on_each_target([] {
    for (const std::size_t count : odd_counts()) {
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, count / 3, count, count + 5}) {
        const auto values = gradients(count);
        REQUIRE(top(values, k) == by_sort(values, k));
      }
    }
  });
}

TEST_CASE("The largest of many are exact, though a sample says where to look") {
  for (const double ratio : {0.0001, 0.001, 0.01, 0.1, 0.5, 0.99}) {
    const auto values = gradients(100'003, 4);
    const auto k = static_cast<std::size_t>(ratio * 100'003);
    CHECK(top(values, k) == by_sort(values, k));
  }
}

TEST_CASE("A sample that misleads is not believed") {
  std::vector<float> values(200'000, 0.0F);  // all that is there stands at one end
  for (std::size_t i = 0; i < 50; ++i) values[i] = static_cast<float>(i + 1);
  CHECK(top(values, 40) == by_sort(values, 40));
  CHECK(top(values, 2000).size() == 50);
}

TEST_CASE("Of equal elements the first are taken; zeros are none") {
  const std::vector<float> values(100'000, -2.5F);
  const auto first = top(values, 1000);
  REQUIRE(first.size() == 1000);
  CHECK(first.front() == 0);
  CHECK(first.back() == 999);
  CHECK(top(std::vector<float>(1000, -0.0F), 10).empty());
}

TEST_CASE("NaN and infinity are the largest") {
  auto values = gradients(50'000);
  values[77] = std::numeric_limits<float>::quiet_NaN();
  values[40'000] = -std::numeric_limits<float>::infinity();
  CHECK(top(values, 2) == std::vector<std::uint32_t>{77, 40'000});
}

TEST_CASE("A sampled threshold takes about as many, none of them small") {
  const auto values = gradients(1'000'000, 9);
  std::vector<std::uint32_t> taken;
  select_sampled(values, 10'000, taken);
  CHECK(taken.size() <= 10'000);
  CHECK(taken.size() > 7'000);
  const auto exact = by_sort(values, 10'000);
  CHECK(std::includes(exact.begin(), exact.end(), taken.begin(), taken.end()));
}

TEST_CASE("What is not kept of a list is called back") {
  std::vector<std::uint32_t> indices{3, 8, 20};
  std::vector<float> values{1.0F, -7.0F, 2.0F};
  std::vector<std::pair<std::uint32_t, float>> dropped;
  keep_top(2, indices, values, [&](auto index, float value) { dropped.push_back({index, value}); });
  CHECK(indices == std::vector<std::uint32_t>{8, 20});
  CHECK(values == std::vector<float>{-7.0F, 2.0F});
  CHECK(dropped == std::vector<std::pair<std::uint32_t, float>>{{3, 1.0F}});
}

}  // namespace ronde::test
