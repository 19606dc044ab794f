#include "bindings/runtime/groups/rank_place.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

/// The place of `rank` of five: ranks 0, 1 and 4 are on one host, 2 and 3 on another.
RankPlace place(int rank) {
  return rank_place({rank, {{0, "a", 1}, {0, "a", 2}, {1, "b", 3}, {1, "b", 4}, {0, "a", 5}}});
}

}  // namespace

TEST_CASE("rank_place: a rank's place on its host is counted among the ranks there") {
  const std::vector<int> local = {0, 1, 0, 1, 2};
  for (int rank = 0; rank < 5; ++rank) {
    CAPTURE(rank);
    CHECK(place(rank).local_rank == local[static_cast<std::size_t>(rank)]);
    CHECK(place(rank).local_size == (rank == 2 || rank == 3 ? 2 : 3));
  }
}

TEST_CASE("rank_place: ranks with one local rank on different hosts count each other") {
  CHECK(place(1).cross_rank == 0);
  CHECK(place(3).cross_rank == 1);
  CHECK(place(3).cross_size == 2);
  CHECK(place(4).cross_rank == 0);
  CHECK(place(4).cross_size == 1);
}

TEST_CASE("position: a rank that is not there comes after all") {
  CHECK(position({3, 5}, 5) == 1);
  CHECK(position({3, 5}, 4) == 2);
}

}  // namespace ronde
