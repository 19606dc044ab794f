#include "backends/net/channel/first_links.h"

#include <doctest/doctest.h>

namespace ronde::net {
namespace {

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
