#include "backends/net/channel/link_peers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/backends/net/channel/one_end.h"
#include "tests/backends/net/channel_peer.h"

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

using Kinds = std::vector<LinkMessage>;

constexpr int kFarLeader = 2;  // of two hosts of two ranks; rank 0 watches it
constexpr int kFarRank = 3;    // nobody here watches it
const LostRank kNeighbourLeft{1, Loss::kLeft, 0};

/// The link has ended, as it was answered or broke.
void end_link(LinkPeers& peers, OneEnd& end) {
  const Loss how = (*end).farewell() ? Loss::kLeft : Loss::kClosed;
  CHECK_FALSE(peers.end(*end, how, now()));
}

TEST_CASE("healing links: after the answered goodbye no news keeps a rank from leaving") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  OneEnd link(kFarLeader);
  peers.begin(*link);
  peers.leave(Leaving::kAll);
  peers.part_with(*link);
  CHECK(link.sent_kinds() == Kinds{LinkMessage::kBegin, LinkMessage::kGoodbye});
  CHECK_FALSE(peers.all_ended());
  link.receive(LinkMessage::kAnswer, 0);
  end_link(peers, link);
  CHECK(peers.all_ended());
  CHECK(peers.learn(kNeighbourLeft, nullptr));
  CHECK(peers.all_ended());
}

TEST_CASE("healing links: news waits for a frame where a link is gone that nobody needs") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  const auto frame = make_frame(0, 0, 10);
  CHECK_FALSE(peers.send(kFarRank, frame));
  OneEnd first(kFarRank);
  peers.begin(*first);
  CHECK(first.sent_kinds() == Kinds{LinkMessage::kBegin, LinkMessage::kFrame});
  CHECK(peers.of(kFarRank).session.confirm(1));
  end_link(peers, first);
  CHECK(peers.learn(kNeighbourLeft, nullptr));
  peers.leave(Leaving::kAll);
  CHECK(peers.all_ended());  // the news is no reason to wait for a link

  peers.leave(Leaving::kNo);
  CHECK_FALSE(peers.send(kFarRank, frame));
  OneEnd second(kFarRank);
  peers.begin(*second);
  peers.greet(*second, 1);
  CHECK(second.sent_kinds() == Kinds{LinkMessage::kBegin, LinkMessage::kLost, LinkMessage::kFrame});
}

TEST_CASE("healing links: a rank that leaves during an outage says goodbye once it is over") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  OneEnd first(kFarLeader);
  peers.begin(*first);
  end_link(peers, first);
  CHECK(peers.broken() == Ranks{kFarLeader});
  OneEnd second(kFarLeader);
  peers.begin(*second);
  CHECK(peers.learn(kNeighbourLeft, nullptr));
  peers.leave(Leaving::kAll);
  peers.part_with(*second);
  CHECK(second.sent_kinds() == Kinds{LinkMessage::kBegin});  // its peer would end the link
  peers.greet(*second, 0);
  CHECK(second.sent_kinds() == Kinds{LinkMessage::kLost, LinkMessage::kGoodbye});
  second.receive(LinkMessage::kAnswer, 1);
  end_link(peers, second);
  CHECK(peers.all_ended());
}

}  // namespace
}  // namespace ronde::net
