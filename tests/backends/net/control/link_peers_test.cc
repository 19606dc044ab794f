// The peers of links: their messages over one link after another, losses, and the first links.
#include "backends/net/control/link_peers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/wire_codec.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/stream_pair.h"

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
const auto kFrame = make_frame(0, 0, 10);

/// The other end of a link that heals. The test is the peer, which has dialed.
class FarEnd {
 public:
  /// The peer's `attempt`; it has received so many messages.
  FarEnd(LinkPeers& peers, int rank, std::uint64_t attempt = 1, std::uint64_t received = 0)
      : peer_(peers.of(rank)), chunks_(Stream(), /*heals=*/true) {
    StreamPair ends;
    peer_.connection.attach({.rank = rank, .stream = std::move(ends.here)});
    chunks_ = ChunkStream(std::move(ends.there), /*heals=*/true);
    say({.kind = FrameKind::kBegin,
         .sequence = attempt,
         .received = received,
         .delivered = received});
    turn();
    peers.begin(peer_);
  }

  void turn() {
    bool more = true;
    while (std::exchange(more, false)) REQUIRE(peer_.progress(more).ok());
  }
  void say(const ChunkHeader& header, std::span<const std::byte> bytes = {}) {
    chunks_.begin(header, bytes);
    REQUIRE(chunks_.write().value() == Written::kAll);
  }
  /// It has received so many messages.
  void confirm(std::uint64_t count) {
    say({.kind = FrameKind::kConfirm, .received = count, .delivered = count});
    turn();
  }
  /// The kinds of the frames that this rank has sent since the last call.
  Kinds sent() {
    turn();
    Kinds kinds;
    for (bool dry = false;;) {
      const auto step = chunks_.read(dry).value();
      if (step == ChunkStream::Step::kNothing) return kinds;
      if (step == ChunkStream::Step::kHeader) chunks_.place({});
      if (step == ChunkStream::Step::kChunk) kinds.push_back(chunks_.incoming().kind);
    }
  }
  /// Breaks the link.
  void close() {
    chunks_ = ChunkStream(Stream(), /*heals=*/true);
    turn();
  }

 private:
  LinkPeer& peer_;
  ChunkStream chunks_;
};

TEST_CASE("healing links: after the answered goodbye no news keeps a rank from leaving") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  FarEnd link(peers, kFarLeader);
  peers.leave(Leaving::kAll);
  CHECK(link.sent() == Kinds{FrameKind::kBegin, FrameKind::kLast});
  CHECK_FALSE(peers.all_ended());
  link.confirm(1);
  CHECK(peers.is_answered(peers.of(kFarLeader)));
  peers.of(kFarLeader).give_up();
  CHECK(peers.all_ended());
  CHECK(peers.learn(kNeighbourLeft));
  CHECK(peers.all_ended());
}

TEST_CASE("healing links: news waits for a frame where a link is gone that nobody needs") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  CHECK_FALSE(peers.send(kFarRank, kFrame));
  FarEnd first(peers, kFarRank);
  CHECK(first.sent() == Kinds{FrameKind::kBegin, FrameKind::kData});
  first.confirm(1);
  first.close();
  LinkPeer& peer = peers.of(kFarRank);
  CHECK_FALSE(peers.needs(peer));
  peer.connection.forget_outage();
  CHECK(peers.learn(kNeighbourLeft));
  peers.leave(Leaving::kAll);
  CHECK(peers.all_ended());  // the news is no reason to wait for a link

  peers.leave(Leaving::kNo);
  CHECK_FALSE(peers.send(kFarRank, kFrame));
  FarEnd second(peers, kFarRank, 2, 1);
  CHECK(second.sent() == Kinds{FrameKind::kBegin, FrameKind::kLost, FrameKind::kData});
}

TEST_CASE("news that comes before a link is open begins it, also news of ranks that left") {
  for (const bool heals : {false, true}) {
    const Topology topology = place(0, 2, 2);
    LinkPeers peers(topology, heals);
    (void)peers.of(kFarRank);
    CHECK(peers.learn(kNeighbourLeft));
    LinkPeer& peer = peers.of(kFarRank);
    CHECK_FALSE(peer.has_kept());
    peers.begin(peer);
    CHECK(peer.has_kept());
    CHECK(peers.learn({2, Loss::kLeft, 0}));
    CHECK(peer.frames.size() == 2);
  }
}

TEST_CASE("healing links: a rank that leaves during an outage says goodbye once it is over") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  LinkPeer& peer = peers.of(kFarLeader);
  FarEnd first(peers, kFarLeader);
  first.close();
  CHECK(peer.connection.outage());
  CHECK(peers.needs(peer));
  CHECK(peers.learn(kNeighbourLeft));
  peers.leave(Leaving::kAll);
  CHECK_FALSE(peers.all_ended());
  FarEnd second(peers, kFarLeader, 2, 0);
  CHECK(second.sent() == Kinds{FrameKind::kBegin, FrameKind::kLost, FrameKind::kLast});
  CHECK_FALSE(peers.is_answered(peer));
  second.confirm(2);
  CHECK(peers.is_answered(peer));
}

TEST_CASE("healing links: the next link carries what the peer has not received, and only that") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  LinkPeer& peer = peers.of(kFarLeader);
  FarEnd first(peers, kFarLeader);
  for (int i = 0; i < 5; ++i) CHECK(peers.send(kFarLeader, kFrame));
  first.turn();
  first.confirm(2);
  first.close();
  CHECK_FALSE(peers.send(kFarLeader, kFrame));
  FarEnd second(peers, kFarLeader, 2, 4);  // it has received more than it had confirmed
  CHECK(second.sent() == Kinds{FrameKind::kBegin, FrameKind::kData, FrameKind::kData});
  CHECK(peer.has_kept());
  second.confirm(6);
  CHECK_FALSE(peer.has_kept());
  second.say({.kind = FrameKind::kConfirm, .received = 7, .delivered = 7});
  bool more = false;
  CHECK(peer.progress(more).code() == Code::kInternal);
}

TEST_CASE("healing links: each message is taken once, and confirmed with the next beat") {
  const Topology topology = place(0, 2, 2);
  LinkPeers peers(topology, true);
  LinkPeer& peer = peers.of(kFarRank);
  FarEnd link(peers, kFarRank);
  CHECK(link.sent() == Kinds{FrameKind::kBegin});
  peer.connection.beat(peer.watched);
  CHECK(link.sent().empty());  // nothing is to be told
  const ChunkHeader message{
      .kind = FrameKind::kData, .length = kFrame.size(), .total = kFrame.size()};
  for (int times = 0; times < 2; ++times) link.say(message, kFrame);
  link.turn();
  const auto taken = peer.windows.receives.take();
  REQUIRE(taken);
  CHECK(taken->bytes == kFrame);
  CHECK_FALSE(peer.windows.receives.take());
  CHECK(link.sent().empty());
  peer.connection.beat(peer.watched);
  CHECK(link.sent() == Kinds{FrameKind::kConfirm});
  peer.connection.beat(/*heartbeat=*/true);
  CHECK(link.sent() == Kinds{FrameKind::kHeartbeat});
}

TEST_CASE("a link that breaks while this rank sends is read to its end") {
  for (const bool heals : {false, true}) {
    const Topology topology = place(0, 2, 2);
    LinkPeers peers(topology, heals);
    LinkPeer& peer = peers.of(kFarRank);
    StreamPair ends;
    peer.connection.attach({.rank = kFarRank, .stream = std::move(ends.here)});
    ChunkStream far(std::move(ends.there), heals);
    const auto say = [&](const ChunkHeader& header, std::span<const std::byte> bytes) {
      far.begin(header, bytes);
      REQUIRE(far.write().value() == Written::kAll);
    };
    say({.kind = FrameKind::kBegin, .sequence = 1}, {});
    bool more = false;
    REQUIRE(peer.progress(more).ok());
    constexpr std::uint64_t kMany = 50;  // more than one turn takes
    for (std::uint64_t i = 0; i < kMany; ++i) {
      say({.kind = FrameKind::kData, .length = 10, .sequence = i, .message = i, .total = 10},
          kFrame);
    }
    far = ChunkStream(Stream(), heals);
    CHECK((peers.send(kFarRank, kFrame)));
    const Status status = peer.progress(more, /*sends=*/true);
    CHECK(status.code() == (heals ? Code::kOk : Code::kUnavailable));
    CHECK(peer.connection.outage().has_value() == heals);
    std::uint64_t taken = 0;
    while (peer.windows.receives.take()) ++taken;
    CHECK(taken == kMany);
  }
}

TEST_CASE("a peer that is given up is sent nothing") {
  for (const bool heals : {false, true}) {
    const Topology topology = place(0, 2, 2);
    LinkPeers peers(topology, heals);
    LinkPeer& peer = peers.of(kFarLeader);
    CHECK_FALSE(peers.send(kFarLeader, kFrame));
    CHECK(peer.needs_link());
    CHECK(peer.has_kept());
    peer.give_up();
    CHECK_FALSE(peer.needs_link());
    CHECK(peers.send(kFarLeader, kFrame));
    CHECK(peer.frames.size() == 1);
    peers.leave(Leaving::kAll);
    CHECK(peers.all_ended());
  }
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
  CHECK(root.peers->learn({4, Loss::kDied, 5}));
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
