#include <algorithm>

#include "ops/algorithms.h"
#include "tests/ops/allreduce/counted_allreduce.h"

namespace ronde::test {
namespace {

bool is_leaf(int which, int rank, int size) {
  return double_tree_place(which, rank, size).children.empty();
}

bool is_child(int which, int rank, int parent, int size) {
  const auto children = double_tree_place(which, parent, size).children;
  return children.size() <= 2 && std::count(children.begin(), children.end(), rank) == 1;
}

}  // namespace

TEST_CASE("double_tree_place: both trees span all ranks and are ceil(log2 n) deep") {
  for (int size = 1; size <= 70; ++size) {
    CAPTURE(size);
    for (const int which : {0, 1}) {
      int roots = 0;
      for (int rank = 0; rank < size; ++rank) {
        const DoubleTreePlace place = double_tree_place(which, rank, size);
        CHECK(place.depth <= static_cast<std::size_t>(ceil_log2(size)));
        if (place.parent < 0) {
          ++roots;
          continue;
        }
        CHECK(place.depth == double_tree_place(which, place.parent, size).depth + 1);
        CHECK(is_child(which, rank, place.parent, size));
      }
      CHECK(roots == 1);
    }
  }
}

TEST_CASE("double_tree_place: what is a leaf in one tree is inside in the other") {
  for (int size = 2; size <= 70; ++size) {
    CAPTURE(size);
    int inside_twice = 0;
    for (int rank = 0; rank < size; ++rank) {
      CHECK_FALSE((is_leaf(0, rank, size) && is_leaf(1, rank, size)));
      inside_twice += !is_leaf(0, rank, size) && !is_leaf(1, rank, size) ? 1 : 0;
    }
    CHECK(inside_twice == size % 2);
  }
}

TEST_CASE("double_tree_allreduce: each half once up and once down its tree, in few steps") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 13, 16}) {
    for (const std::size_t count : {0UL, 1UL, 2UL, 999UL, 300'000UL}) {
      CAPTURE(ranks);
      CAPTURE(count);
      const std::size_t bytes = count * 4;
      const auto traffic = counted_allreduce(&double_tree_allreduce, ranks, DType::kFloat32, count);
      const auto pieces = static_cast<int>((bytes / 2 + (128 << 10) - 1) / (128 << 10));
      CHECK(steps(traffic) <= 2 * ceil_log2(ranks) + pieces);
      CHECK(total_bytes(traffic) == 2 * static_cast<std::size_t>(ranks - 1) * bytes);
      for (const Traffic& rank : traffic) CHECK(rank.bytes <= 2 * bytes + 8);
    }
  }
}

TEST_CASE("double_tree_allreduce: 16-bit types travel up as fp32 and down as they are") {
  const auto traffic = counted_allreduce(&double_tree_allreduce, 6, DType::kBfloat16, 1000);
  CHECK(total_bytes(traffic) == 5 * (4000 + 2000));
}

}  // namespace ronde::test
