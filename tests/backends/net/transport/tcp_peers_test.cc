// The links of two ranks, whose connections the test makes itself.
#include "backends/net/transport/tcp_peers.h"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include "backends/net/transport/transfer_id.h"
#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

/// The peers of one rank of three. Its dials are counted, and bring nothing.
struct PeersOf {
  explicit PeersOf(int rank, Duration late_after = std::chrono::hours(1))
      : args{.members = Members(rank, {{4, "a", 1}, {5, "b", 2}, {6, "c", 3}}),
             .party = {},
             .manager = ConnectionManager::create(
                            listen_on(interface_endpoint("127.0.0.1").value()).value(), 3)
                            .value(),
             .address = [this](const FailedRank& who) -> Result<Endpoint> {
               dialed.push_back(who.rank);
               return interface_endpoint("127.0.0.1");
             },
             .timeout = {},
             .late_after = late_after} {}

  Status progress() {
    bool more = true;
    while (std::exchange(more, false)) RONDE_RETURN_IF_ERROR(peers.progress(more));
    return {};
  }

  std::vector<int> dialed;  // ranks of the job
  TcpTransportArgs args;
  ConnectionManager::ServiceId service = 0;  // which makes no dials
  TcpPeers peers{args, service};
};

/// Connects these two ranks of the job, as the manager does where the higher one dials.
void connect(PeersOf& low, int low_rank, PeersOf& high, int high_rank) {
  StreamPair ends;
  high.peers.take_link({.rank = low_rank, .stream = std::move(ends.here), .dialed = true});
  low.peers.take_link({.rank = high_rank, .stream = std::move(ends.there)});
}

TEST_CASE("a transfer makes its link dial once where that is this rank's part") {
  PeersOf middle(1);
  for (int round = 0; round < 2; ++round) {
    middle.peers.use(0).post_send({});
    CHECK(middle.peers.send(0).ok());
    middle.peers.use(2).post_receive({});
    CHECK(middle.peers.connect(2).ok());
    CHECK(middle.progress().ok());
  }
  CHECK(middle.dialed == std::vector<int>{4});
}

TEST_CASE("transfers move over a connection once it is there") {
  PeersOf low(0);
  PeersOf high(2);
  std::byte out{7};
  std::byte in{};
  const TransferId sent = make_transfer_id(false, 0, high.peers.use(0).post_send({&out, 1}));
  const TransferId received = make_transfer_id(true, 2, low.peers.use(2).post_receive({&in, 1}));
  connect(low, 4, high, 6);
  CHECK(high.progress().ok());
  CHECK(low.progress().ok());
  CHECK(high.peers.done(sent));
  CHECK(low.peers.done(received));
  CHECK(in == out);
}

TEST_CASE("a connection with a rank outside of the group is closed") {
  PeersOf low(0);
  StreamPair ends;
  low.peers.take_link({.rank = 9, .stream = std::move(ends.here)});
  std::byte byte{};
  const iovec piece{&byte, 1};
  CHECK_FALSE(ends.there.receive({&piece, 1}).ok());
}

TEST_CASE("a rank that others must dial connects with those that are late") {
  PeersOf low(0, /*late_after=*/-std::chrono::seconds(1));
  CHECK(low.peers.watch_late().ok());
  CHECK(low.dialed.empty());
  low.peers.use(2).post_receive({});
  CHECK(low.peers.watch_late().ok());
  CHECK(low.peers.watch_late().ok());
  CHECK(low.dialed == std::vector<int>{6});
  StreamPair ends;  // the dial succeeds
  low.peers.take_link({.rank = 6, .stream = std::move(ends.here), .dialed = true});
  CHECK(low.peers.watch_late().ok());
  CHECK(low.dialed.size() == 1);
}

TEST_CASE("a failed dial is an error only where a transfer waits for it") {
  const Status why(Code::kTimeout, "");
  PeersOf middle(1);
  CHECK(middle.peers.take_failure(6, why).ok());
  middle.peers.use(2).post_receive({});
  const Status status = middle.peers.take_failure(6, why);
  CHECK(status.code() == Code::kTimeout);
  CHECK(status.failed_rank()->rank == 6);
  CHECK(middle.peers.take_failure(4, why).failed_rank()->rank == 4);
}

TEST_CASE("the error of a link names its rank") {
  PeersOf low(0);
  PeersOf high(2);
  low.peers.use(2).post_receive({});
  high.peers.use(0);
  connect(low, 4, high, 6);
  std::byte out{};
  high.peers.use(0).post_send({&out, 1});
  CHECK(high.progress().ok());
  const Status status = low.progress();
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message().find("rank 2 of the group sent 1 bytes where 0 were expected") == 0);
}

TEST_CASE("the link that is idle for longest ends first, once its peer agrees") {
  PeersOf low(0);
  PeersOf middle(1);
  PeersOf high(2);
  CHECK(low.peers.least_recent_use() == kForever);
  int rank = 1;
  for (PeersOf* peer : {&middle, &high}) {
    peer->peers.use(0).post_send({});
    low.peers.use(rank).post_receive({});
    connect(low, 4, *peer, 4 + rank++);
    CHECK(peer->progress().ok());
    CHECK(low.progress().ok());
  }
  const TimePoint first = low.peers.least_recent_use();
  CHECK(first != kForever);
  low.peers.end_least_recent();
  middle.peers.tend();
  low.peers.tend();
  middle.peers.tend();
  CHECK_FALSE(middle.peers.use(0).connected());
  CHECK(high.peers.use(0).connected());
  CHECK(low.peers.least_recent_use() > first);
  CHECK(low.peers.least_recent_use() != kForever);
}

TEST_CASE("all is delivered once the peers' hosts have it, and a limit ends the wait") {
  PeersOf low(0);
  PeersOf high(2);
  low.peers.use(2).post_receive({});
  high.peers.use(0).post_send({});
  connect(low, 4, high, 6);
  CHECK(high.progress().ok());
  const TimePoint start = now();
  high.peers.wait_until_delivered(start + std::chrono::milliseconds(20));
  CHECK(now() >= start + std::chrono::milliseconds(20));  // a Unix socket counts what nobody read
  CHECK(low.progress().ok());
  const TimePoint limit = now() + std::chrono::seconds(20);
  high.peers.wait_until_delivered(limit);
  CHECK(now() < limit);
}

}  // namespace
}  // namespace ronde::net
