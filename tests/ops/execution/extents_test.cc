#include "ops/execution/extents.h"

#include <doctest/doctest.h>

#include <limits>

namespace ronde {
namespace {

using Splits = std::vector<std::int64_t>;

// The group's status if rank 0 gives these splits and the other ranks valid ones.
Status verdict(const Shape& shape, const Splits& splits, int size = 3) {
  std::vector<std::int64_t> numbers;
  BundleTensor tensor;
  tensor.shape = shape;
  tensor.splits = splits;
  append_alltoall(tensor, size, numbers);
  BundleTensor good;
  good.shape = {size};
  for (int rank = 1; rank < size; ++rank) append_alltoall(good, size, numbers);
  CHECK(numbers.size() == static_cast<std::size_t>(size) * alltoall_numbers(size));
  return check_alltoall(size, numbers);
}

}  // namespace

TEST_CASE("check_alltoall: good splits pass") {
  CHECK(verdict({6, 2}, {}).ok());
  CHECK(verdict({0}, {}).ok());
  CHECK(verdict({6}, {1, 2, 3}).ok());
  CHECK(verdict({6}, {0, 0, 6}).ok());
  CHECK(verdict({0}, {0, 0, 0}).ok());
}

TEST_CASE("check_alltoall: every fault is named, with the rank and its values") {
  const auto text = [](const Status& status) {
    CHECK(status.code() == Code::kInvalidArgument);
    return status.message();
  };
  CHECK(text(verdict({7}, {})) ==
        "rank 0 of the group gave no splits, and its first extent 7 does not divide "
        "by 3 ranks");
  CHECK(text(verdict({7}, {1, 2})) == "rank 0 of the group gave 2 splits for 3 ranks");
  CHECK(text(verdict({7}, {9, -1, -1})) == "rank 0 of the group gave the negative split -1");
  CHECK(text(verdict({7}, {1, 2, 3})) ==
        "rank 0 of the group gave splits that sum to 6 for a first extent of 7");
  CHECK(text(verdict({7}, {1, 8, 0})) ==
        "rank 0 of the group gave splits that sum to 9 for a first extent of 7");
  CHECK(text(verdict({}, {})) ==
        "rank 0 of the group gave a tensor without dimensions; at least one is "
        "needed");
}

TEST_CASE("check_alltoall: splits whose sum would overflow are refused") {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  CHECK(verdict({huge}, {huge - 1, 1, 0}).ok());
  CHECK(verdict({1}, {1, huge - 1, huge}).code() == Code::kInvalidArgument);
}

TEST_CASE("alltoall_rows: finds what one rank sends another") {
  std::vector<std::int64_t> numbers;
  const Splits first{1, 2};
  const Splits second{3, 4};
  BundleTensor tensor;
  tensor.shape = {3};
  tensor.splits = first;
  append_alltoall(tensor, 2, numbers);
  tensor.shape = {7};
  tensor.splits = second;
  append_alltoall(tensor, 2, numbers);
  CHECK(alltoall_rows(numbers, 2, 0, 1) == 2);
  CHECK(alltoall_rows(numbers, 2, 1, 0) == 3);
}

TEST_CASE("even_rows: the first ranks get the remainder") {
  CHECK(even_rows(7, 3, 0) == 3);
  CHECK(even_rows(7, 3, 1) == 2);
  CHECK(even_rows(7, 3, 2) == 2);
  CHECK(even_rows(1, 3, 1) == 0);
}

TEST_CASE("with_first_extent: a scalar gains a dimension") {
  CHECK(with_first_extent({}, 4) == Shape{4});
  CHECK(with_first_extent({2, 3}, 4) == Shape{4, 3});
  CHECK(first_extent({}) == 1);
  CHECK(row_elements({5, 2, 3}) == 6);
  CHECK(row_elements({}) == 1);
}

}  // namespace ronde
