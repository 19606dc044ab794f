#include "ops/sparse/choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace ronde::test {
namespace {

/// Indices that are drawn by Zipf's law, in descending frequency.
std::vector<std::int64_t> zipf(int seed, std::size_t count, std::int64_t table) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  std::uniform_real_distribution<double> even(0, 1);
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < count; ++i) {
    indices.push_back(static_cast<std::int64_t>(
        std::min(std::pow(even(random), -10.0) - 1, static_cast<double>(table - 1))));
  }
  return indices;
}

/// Several ranks' samples, and their indices.
struct Sampled {
  explicit Sampled(const std::vector<std::vector<std::int64_t>>& lists) {
    for (const auto& list : lists) {
      RowSums rows;
      rows.add(list, nullptr, 0);
      rows.group();
      samples.push_back(IndexSample::of(rows));
      std::vector<std::int64_t> once;
      for (std::size_t i = 0; i < rows.count(); ++i) once.push_back(rows.index(i));
      all.insert(once.begin(), once.end());
      by_rank.push_back(std::move(once));
    }
  }
  std::vector<IndexSample> samples;
  std::vector<std::vector<std::int64_t>> by_rank;  // ascending, each once
  std::set<std::int64_t> all;
};

SparseLoad sparse_load(std::size_t ranks, std::size_t rows_each, std::size_t union_rows) {
  return {.ranks = ranks,
          .rows = ranks * rows_each,
          .union_rows = union_rows,
          .table_rows = 1'000'000,
          .row_bytes = 256};
}

}  // namespace

TEST_CASE("sparse choice: few rows are gathered, many go to their owners") {
  CHECK(choose_sparse_path(sparse_load(8, 20, 40)) == SparsePath::kAllgather);
  CHECK(choose_sparse_path(sparse_load(8, 10'000, 15'000)) == SparsePath::kKeys);
  CHECK(choose_sparse_path(sparse_load(2, 10'000, 20'000)) == SparsePath::kAllgather);
  CHECK(choose_sparse_path(sparse_load(1, 10'000, 10'000)) == SparsePath::kAllgather);
}

TEST_CASE("sparse choice: narrow rows that are nearly all there are reduced densely") {
  SparseLoad load{.ranks = 4,
                  .rows = 3'600'000,
                  .union_rows = 1'000'000,
                  .table_rows = 1'000'000,
                  .row_bytes = 4};
  CHECK(choose_sparse_path(load) == SparsePath::kTable);
  load.table_rows = -1;
  CHECK(choose_sparse_path(load) == SparsePath::kKeys);
}

TEST_CASE("sparse choice: the union is known from samples") {
  std::vector<std::vector<std::int64_t>> lists;
  for (int rank = 0; rank < 8; ++rank) lists.push_back(zipf(rank, 20'000, 1'000'000));
  const Sampled many(lists);
  const auto exact = static_cast<double>(many.all.size());
  CHECK(static_cast<double>(estimate_union(many.samples)) == doctest::Approx(exact).epsilon(0.3));
  const Sampled few({{1, 2, 3, 3}, {3, 4}, {}});
  CHECK(estimate_union(few.samples) == 4);
}

TEST_CASE("sparse choice: owners get about equally many rows, however skewed") {
  std::vector<std::vector<std::int64_t>> lists;
  for (int rank = 0; rank < 8; ++rank) lists.push_back(zipf(rank, 20'000, 1'000'000));
  lists[3].clear();
  const Sampled sampled(lists);
  const std::vector<std::int64_t> begins = share_begins(sampled.samples);
  REQUIRE(begins.size() == 8);
  CHECK(begins[0] == 0);
  CHECK(std::is_sorted(begins.begin(), begins.end()));
  std::vector<double> received(8);
  double total = 0;
  for (const auto& indices : sampled.by_rank) {
    for (const std::int64_t index : indices) {
      const auto owner = std::upper_bound(begins.begin(), begins.end(), index) - begins.begin() - 1;
      ++received[static_cast<std::size_t>(owner)];
      ++total;
    }
  }
  CHECK(*std::max_element(received.begin(), received.end()) < 1.3 * total / 8);
}

TEST_CASE("sparse choice: without rows every owner but the first begins nowhere") {
  const std::vector<std::int64_t> begins = share_begins(Sampled({{}, {}}).samples);
  CHECK(begins[0] == 0);
  CHECK(begins[1] > 1'000'000'000'000);
}

}  // namespace ronde::test
