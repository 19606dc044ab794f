// The peers of links: their messages over one link after another, losses, and the first links.
#include "backends/net/control/link_peers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/wire_codec.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/control/one_end.h"

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

TEST_CASE("news of a loss counts only if it names ranks of the job and a reason") {
  const Topology topology = place(0, 2, 2);
  const auto read = [&](const LostRank& lost) {
    return read_loss(encode_wire(lost), topology) == std::optional(lost);
  };
  CHECK(read({3, Loss::kFrozen, 2}));
  CHECK_FALSE(read({4, Loss::kDied, 2}));
  CHECK_FALSE(read({-1, Loss::kDied, 2}));
  CHECK_FALSE(read({3, Loss::kAltered, 4}));
  CHECK_FALSE(read({3, Loss::kAltered, -1}));
  CHECK_FALSE(read({3, static_cast<Loss>(6), 2}));
  CHECK_FALSE(read_loss({}, topology));
}

using Kinds = std::vector<FrameKind>;

constexpr int kFarLeader = 2;  // of two hosts of two ranks; rank 0 watches it
constexpr int kFarRank = 3;    // nobody here watches it
const LostRank kNeighbourLeft{1, Loss::kLeft, 0};

/// The link has ended, as it was answered or broke.
void end_link(LinkPeers& peers, OneEnd& end) {
  (*end).end(Loss::kClosed);
  CHECK_FALSE(peers.end(*end, now()));
}

TEST_CASE("healing links: after the answered goodbye no news keeps a rank from leaving") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  OneEnd link(kFarLeader);
  peers.begin(*link);
  peers.leave(Leaving::kAll);
  peers.send_goodbye(*link);
  CHECK(link.sent_kinds() == Kinds{FrameKind::kBegin, FrameKind::kGoodbye});
  CHECK_FALSE(peers.all_ended());
  link.receive(FrameKind::kAnswer, 0);
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
  CHECK(first.sent_kinds() == Kinds{FrameKind::kBegin, FrameKind::kData});
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
  CHECK(second.sent_kinds() == Kinds{FrameKind::kBegin, FrameKind::kLost, FrameKind::kData});
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
  peers.send_goodbye(*second);
  CHECK(second.sent_kinds() == Kinds{FrameKind::kBegin});  // its peer would end the link
  peers.greet(*second, 0);
  CHECK(second.sent_kinds() == Kinds{FrameKind::kLost, FrameKind::kGoodbye});
  second.receive(FrameKind::kAnswer, 1);
  end_link(peers, second);
  CHECK(peers.all_ended());
}

constexpr std::size_t kHead = kFrameHeadBytes;
const auto kFrame = make_frame(0, 0, 10);

void send(LinkSession& session) { session.send(FrameKind::kData, kFrame); }

TEST_CASE("messages wait for the first link") {
  for (const bool heals : {false, true}) {
    LinkSession session(heals);
    send(session);
    CHECK(session.needs_link());
    CHECK(session.has_kept());
    OneEnd end;
    session.use(*end, 0);
    CHECK(end.sent() == kHead + 10);
    CHECK(session.has_kept() == heals);
  }
}

TEST_CASE("a link that ends without healing is the last one") {
  LinkSession session(false);
  OneEnd end;
  session.use(*end, 0);
  session.drop(*end);
  CHECK_FALSE(session.needs_link());
  send(session);
  CHECK_FALSE(session.has_kept());
}

TEST_CASE("the next link carries what the peer has not received, and only that") {
  LinkSession session(true);
  OneEnd first;
  session.use(*first, 0);
  for (int i = 0; i < 5; ++i) send(session);
  CHECK(session.confirm(2));
  session.drop(*first);
  CHECK(session.needs_link());
  send(session);
  OneEnd second;
  session.use(*second, 4);  // it has received more than it had confirmed
  CHECK(second.sent() == 2 * (kHead + 10));
  CHECK(session.confirm(4));
  CHECK(session.has_kept());
  CHECK(session.confirm(6));
  CHECK_FALSE(session.has_kept());
  CHECK(session.confirm(3));  // an old link's news
  CHECK_FALSE(session.confirm(7));
}

TEST_CASE("the end of an older link changes nothing") {
  LinkSession session(true);
  OneEnd first;
  OneEnd second;
  session.use(*first, 0);
  session.use(*second, 0);
  session.drop(*first);
  CHECK(session.link() == &*second);
}

TEST_CASE("each message is taken once, and the peer is told") {
  LinkSession session(true);
  CHECK_FALSE(session.has_unconfirmed());
  CHECK(session.take(0, 100));
  CHECK_FALSE(session.take(0, 100));
  CHECK(session.is_ahead(2));
  CHECK(session.has_unconfirmed());
  CHECK_FALSE(session.has_many_unconfirmed());
  CHECK(session.take(1, 1 << 20));
  CHECK(session.has_many_unconfirmed());
  CHECK(session.confirmation() == 2);
  CHECK_FALSE(session.has_unconfirmed());
}

TEST_CASE("a session that is given up keeps nothing") {
  LinkSession session(true);
  send(session);
  session.give_up();
  send(session);
  CHECK_FALSE(session.has_kept());
  CHECK_FALSE(session.needs_link());
}

/// Four hosts of two ranks: rank 0 watches 2, 4 and 6, rank 2 watches 0, and rank 3 nobody.
struct Starting {
  explicit Starting(int rank) : first(rank) {
    topology.rank = rank;
    for (int each = 0; each < 8; ++each) topology.peers.push_back({each / 2, "", 0});
    peers.emplace(topology, /*heals=*/false);
  }
  Topology topology;
  std::optional<LinkPeers> peers;
  FirstLinks first;
};

TEST_CASE("connecting goes on while ranks to be watched have no link") {
  Starting leader(2);
  CHECK_FALSE(leader.first.outcome(*leader.peers));
  CHECK(leader.first.under_way());
}

TEST_CASE("a rank that watches nobody is connected at once") {
  Starting other(3);
  const auto outcome = other.first.outcome(*other.peers);
  REQUIRE(outcome);
  CHECK(outcome->ok());
  CHECK_FALSE(other.first.under_way());
}

TEST_CASE("a failed dial is the outcome, and names its rank") {
  Starting leader(2);
  leader.first.fail(0, {Code::kRankFailure, "refused"});
  const auto outcome = leader.first.outcome(*leader.peers);
  REQUIRE(outcome);
  CHECK(outcome->code() == Code::kRankFailure);
  CHECK(outcome->message() == "rank 2 could not connect with rank 0 (refused) in time");
  CHECK(outcome->failed_rank()->rank == 0);
  CHECK_FALSE(leader.first.under_way());
}

TEST_CASE("a rank that is lost before it was linked is the outcome") {
  Starting root(0);
  CHECK(root.peers->learn({4, Loss::kDied, 5}, nullptr));
  const auto outcome = root.first.outcome(*root.peers);
  REQUIRE(outcome);
  CHECK(outcome->message() == "rank 0 could not connect with rank 4 (it has ended) in time");
  CHECK(outcome->failed_rank()->rank == 4);
}

TEST_CASE("all that are missing at the end of the time are named") {
  Starting root(0);
  const Status status = root.first.time_out(*root.peers);
  CHECK(status.code() == Code::kTimeout);
  CHECK(status.message() == "rank 0 could not connect with rank 2, 4, 6 in time");
  CHECK(status.failed_rank()->rank == 2);
  CHECK_FALSE(root.first.under_way());
}

}  // namespace
}  // namespace ronde::net
