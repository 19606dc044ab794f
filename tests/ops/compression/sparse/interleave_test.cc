// The owners of the elements of a sparse allreduce.
#include "ops/compression/sparse/interleave.h"

#include <doctest/doctest.h>

#include <vector>

namespace ronde {

TEST_CASE("Every element has one owner, and owners count theirs from zero on") {
  for (const std::size_t ranks : {1U, 2U, 3U, 7U, 16U}) {
    for (const std::size_t count : {0U, 1U, 63U, 64U, 65U, 1000U, 5000U}) {
      const Interleave deal(count, ranks, 5);
      std::vector<std::size_t> next(ranks);
      for (std::size_t index = 0; index < count; ++index) {
        const auto place = deal.place(index);
        REQUIRE(place.owner < ranks);
        REQUIRE(place.local == next[place.owner]++);
        REQUIRE(deal.index(place.owner, place.local) == index);
      }
      for (std::size_t owner = 0; owner < ranks; ++owner) CHECK(next[owner] == deal.owned(owner));
    }
  }
}

TEST_CASE("Any region is shared by all owners alike, and so is any stride") {
  constexpr std::size_t kRanks = 16, kCount = 1 << 20;
  const Interleave deal(kCount, kRanks, 0);
  std::vector<std::size_t> region(kRanks), stride(kRanks);
  for (std::size_t i = 300'000; i < 300'000 + kRanks * 640; ++i) ++region[deal.place(i).owner];
  for (std::size_t i = 0; i < kCount; i += 1024) ++stride[deal.place(i).owner];
  for (std::size_t owner = 0; owner < kRanks; ++owner) {
    CHECK(region[owner] >= 576);
    CHECK(region[owner] <= 704);
    CHECK(stride[owner] > 20);  // 64 on average
    CHECK(stride[owner] < 120);
  }
}

}  // namespace ronde
