#include "backends/net/channel/link_peers.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace ronde::net {
namespace {

Topology place(int rank, int hosts, int ranks_each) {
  Topology topology{rank, {}};
  for (int r = 0; r < hosts * ranks_each; ++r) topology.peers.push_back({r / ranks_each, "", 0});
  return topology;
}

using Ranks = std::vector<int>;

TEST_CASE("leaders watch along the tree, the others nobody") {
  CHECK(watched_ranks(place(0, 4, 2), {}) == Ranks{2, 4, 6});
  CHECK(watched_ranks(place(2, 4, 2), {}) == Ranks{0});
  CHECK(watched_ranks(place(3, 4, 2), {}).empty());
  CHECK(watched_ranks(place(0, 1, 8), {}).empty());
}

TEST_CASE("who is absent is watched by nobody, and its place is taken") {
  CHECK(watched_ranks(place(0, 4, 2), {2, 6, 7}) == Ranks{3, 4});
  CHECK(watched_ranks(place(3, 4, 2), {2}) == Ranks{0});
  CHECK(watched_ranks(place(2, 4, 2), {0, 1}) == Ranks{4, 6});
}

TEST_CASE("each watches those that watch it, and nobody watches many") {
  constexpr int kManyHosts = 64;
  const std::set<int> absent{0, 8, 9, 77};
  std::size_t most = 0;
  for (int rank = 0; rank < kManyHosts * 8; ++rank) {
    if (absent.contains(rank)) continue;
    const Ranks watched = watched_ranks(place(rank, kManyHosts, 8), absent);
    most = std::max(most, watched.size());
    for (const int other : watched) {
      const Ranks back = watched_ranks(place(other, kManyHosts, 8), absent);
      CHECK(std::ranges::count(back, rank) == 1);
    }
  }
  CHECK(most == 9);
}

}  // namespace
}  // namespace ronde::net
