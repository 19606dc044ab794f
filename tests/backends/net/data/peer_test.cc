// Peers of ranks. The test makes their connections itself.
#include "backends/net/data/peer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

constexpr std::size_t kLinkWindow = 4096;

TcpTransportArgs args_of_peer() {
  return {.members = Members(0, {{0, "node0", 1}, {1, "node1", 1}}, {"eth0", "eth1"}),
          .identity = {},
          .manager = nullptr,
          .route = nullptr,
          .window_bytes = kLinkWindow,
          .limit = std::chrono::seconds(20)};
}

/// A peer that dials and heals, connected over both interfaces.
struct DialingPeer {
  DialingPeer() {
    for (std::size_t interface = 0; interface < peers.size(); ++interface) {
      StreamPair ends;
      link.take_link(interface, {.rank = 1, .stream = std::move(ends.here)});
      peers[interface].emplace(std::move(ends.there), /*heals=*/true);
      write(interface, {.kind = FrameKind::kBegin, .sequence = 1});
    }
  }

  /// The chunk arrives over that interface.
  void write(std::size_t interface, const ChunkHeader& header,
             std::span<const std::byte> bytes = {}) {
    peers[interface]->begin(header, bytes);
    REQUIRE(peers[interface]->write().value() == Written::kAll);
    bool more = false;
    for (int turn = 0; turn < 3; ++turn) REQUIRE(link.progress(more).ok());
  }

  /// All chunks below this number are delivered, as this rank has told over either interface.
  std::uint64_t acknowledged() {
    for (auto& peer : peers) {
      bool dry = false;
      for (auto step = peer->read(dry); *step != ChunkStream::Step::kNothing;
           step = peer->read(dry)) {
        if (*step == ChunkStream::Step::kHeader) peer->place({});
        furthest = std::max(furthest, peer->incoming().delivered);
      }
    }
    return furthest;
  }

  const TcpTransportArgs args = args_of_peer();
  const std::vector<ConnectionManager::ServiceId> services{1, 2};  // which make no dials
  const PeerNeeds needs{args, services};
  Peer link{1, needs};
  std::array<std::optional<ChunkStream>, 2> peers;
  std::uint64_t furthest = 0;
};

TEST_CASE("a full window is acknowledged though its first chunk comes last") {
  constexpr std::uint32_t kFirst = 100;
  constexpr std::uint32_t kOther = 960;  // with their cost, four of them fill the window
  static_assert(4 * (kOther + kChunkCost) == kLinkWindow);
  const std::vector<std::byte> data(kOther);
  std::vector<std::byte> in(kFirst + 10 * kOther);
  DialingPeer here;
  here.link.post_receive(in);
  ChunkHeader header{.kind = FrameKind::kData, .length = kOther, .total = in.size()};
  for (std::uint64_t number = 1; number <= 4; ++number) {
    header.sequence = number;
    header.offset = kFirst + (number - 1) * kOther;
    here.write(1, header, data);
  }
  CHECK(here.acknowledged() == 0);
  header.length = kFirst;
  header.sequence = header.offset = 0;
  here.write(0, header, std::span(data).first(kFirst));
  CHECK(here.acknowledged() == 5);
}

TEST_CASE("a goodbye is acknowledged though a chunk before it comes later") {
  DialingPeer here;
  here.link.post_receive({});
  here.write(1, {.kind = FrameKind::kLast, .sequence = 1});
  here.write(0, {.kind = FrameKind::kData, .sequence = 0});
  CHECK(here.link.peer_left());
  CHECK(here.acknowledged() == 2);
}

// Without a window.

/// A rank of three, and another as its peer. Dials are counted, and bring nothing.
struct PeerOf {
  PeerOf(int own, int other, Duration late_after = std::chrono::hours(1))
      : args{.members = Members(own, {{4, "a", 1}, {5, "b", 2}, {6, "c", 3}}),
             .identity = {},
             .manager = ConnectionManager::create(3).value(),
             .route =
                 [this](const FailedRank& who, std::size_t) {
                   dialed.push_back(who.rank);
                   return Route{interface_endpoint("127.0.0.1").value()};
                 },
             .timeout = {},
             .late_after = late_after},
        peer(other, needs) {}

  Status progress() {
    bool more = true;
    while (std::exchange(more, false)) RONDE_RETURN_IF_ERROR(peer.progress(more));
    return {};
  }

  std::vector<int> dialed;  // ranks of the job
  TcpTransportArgs args;
  std::vector<ConnectionManager::ServiceId> services{0};  // which makes no dials
  PeerNeeds needs{args, services};
  Peer peer;
};

/// Connects them, as the manager does where the higher one dials.
void connect(PeerOf& low, PeerOf& high) {
  StreamPair ends;
  high.peer.take_link(0, {.rank = 4, .stream = std::move(ends.here), .dialed = true});
  low.peer.take_link(0, {.rank = 6, .stream = std::move(ends.there)});
}

/// The lowest and the highest rank, as peers of one another.
struct TwoPeers {
  PeerOf low{0, 2};
  PeerOf high{2, 0};
};

TEST_CASE("a transfer makes its peer dial once where that is this rank's part") {
  PeerOf higher(1, 0);
  PeerOf lower(1, 2);
  for (int round = 0; round < 2; ++round) {
    higher.peer.post_send({});
    CHECK(higher.peer.connect().ok());
    lower.peer.post_receive({});
    CHECK(lower.peer.connect().ok());
    CHECK(higher.progress().ok());
    CHECK(lower.progress().ok());
  }
  CHECK(higher.dialed == std::vector<int>{4});
  CHECK(lower.dialed.empty());
}

TEST_CASE("transfers move over a connection once it is there") {
  TwoPeers two;
  std::byte out{7};
  std::byte in{};
  CHECK(two.high.peer.post_send({&out, 1}) == 0);
  CHECK(two.low.peer.post_receive({&in, 1}) == 0);
  connect(two.low, two.high);
  CHECK(two.high.progress().ok());
  CHECK(two.low.progress().ok());
  CHECK(two.high.peer.sent(0));
  CHECK(two.low.peer.received(0));
  CHECK(in == out);
}

TEST_CASE("a rank that others must dial connects with those that are late") {
  PeerOf low(0, 2, /*late_after=*/-std::chrono::seconds(1));
  CHECK(low.peer.look(now()).ok());
  CHECK(low.dialed.empty());
  low.peer.post_receive({});
  CHECK(low.peer.look(now()).ok());
  CHECK(low.peer.look(now()).ok());
  CHECK(low.dialed == std::vector<int>{6});
  StreamPair ends;  // the dial succeeds
  low.peer.take_link(0, {.rank = 6, .stream = std::move(ends.here), .dialed = true});
  CHECK(low.peer.look(now()).ok());
  CHECK(low.dialed.size() == 1);
}

TEST_CASE("a failed dial is an error only where a transfer waits for it") {
  const Status why(Code::kTimeout, "");
  PeerOf lower(1, 2);
  CHECK(lower.peer.take_failure(0, why).ok());
  lower.peer.post_receive({});
  const Status status = lower.peer.take_failure(0, why);
  CHECK(status.code() == Code::kTimeout);
  CHECK(status.failed_rank()->rank == 6);
  PeerOf higher(1, 0);
  higher.peer.post_send({});
  CHECK(higher.peer.take_failure(0, why).failed_rank()->rank == 4);
}

TEST_CASE("the error of a link names its rank") {
  TwoPeers two;
  two.low.peer.post_receive({});
  connect(two.low, two.high);
  std::byte out{};
  two.high.peer.post_send({&out, 1});
  CHECK(two.high.progress().ok());
  const Status status = two.low.progress();
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message().find("rank 2 of the group sent 1 bytes where 0 were expected") == 0);
}

TEST_CASE("an idle link ends once its peer agrees") {
  TwoPeers two;
  CHECK(two.low.peer.idle_since(0) == kForever);
  two.high.peer.post_send({});
  two.low.peer.post_receive({});
  connect(two.low, two.high);
  CHECK(two.high.progress().ok());
  CHECK(two.low.progress().ok());
  CHECK(two.low.peer.idle_since(0) != kForever);
  two.low.peer.rest(0);
  two.high.peer.tend();
  two.low.peer.tend();
  two.high.peer.tend();
  for (const PeerOf* each : {&two.high, &two.low}) {
    CHECK(each->peer.idle_since(0) == kForever);
    int waits = 0;
    each->peer.for_each_wait([&](int, int) { ++waits; });
    CHECK(waits == 0);
  }
}

TEST_CASE("the end of a group waits until the peer's host has all") {
  TwoPeers two;
  two.low.peer.post_receive({});
  two.high.peer.post_send({});
  connect(two.low, two.high);
  CHECK(two.high.progress().ok());
  CHECK_FALSE(two.high.peer.drain());  // a Unix socket counts what nobody read
  CHECK(two.low.progress().ok());
  CHECK(two.high.peer.drain());
}

/// A rank that has dialed its peer, and the peer's end of the connection.
struct Connected {
  Connected() {
    own.peer.take_link(0, {.rank = 4, .stream = std::move(ends.here), .dialed = true});
    own.peer.tend();
  }
  StreamPair ends;
  PeerOf own{2, 0};
};

TEST_CASE("a peer that leaves while it is asked to end the connection leaves nothing to do") {
  Connected connected;
  REQUIRE(connected.own.peer.idle_since(0) != kForever);
  connected.own.peer.rest(0);
  connected.ends.there.close();
  connected.own.peer.tend();
  CHECK(connected.own.peer.idle_since(0) == kForever);
  CHECK(connected.own.progress().ok());
  connected.own.peer.for_each_wait([](int, int) { FAIL("there is nothing to wait for"); });
}

TEST_CASE("a connection that broke while nobody used it is an error once it is used") {
  Connected connected;
  connected.ends.there.close();
  connected.own.peer.tend();
  std::byte byte{1};
  (void)connected.own.peer.post_send({&byte, 1});
  bool more = false;
  const Status status = connected.own.peer.progress_sends(more);
  CHECK(status.code() == Code::kRankFailure);
  CHECK(status.message().find("rank 4 (pid 1 on a) is gone: its connection ") == 0);
}

/// A connection with a rank that has not dialed yet, and what that rank does with it.
struct Made {
  Link link(bool dialed) { return {.rank = 6, .stream = std::move(ends.here), .dialed = dialed}; }
  void say(FrameKind kind) {
    REQUIRE(send_all(ends.there, encode_head({kind, ++attempts}), kForever).ok());
  }
  /// True where this rank has closed it.
  bool closed() {
    std::byte byte{};
    const iovec piece{&byte, 1};
    return !ends.there.receive({&piece, 1}).ok();
  }
  StreamPair ends;
  std::uint64_t attempts = 0;
};

TEST_CASE("the connection whose dialer begins is used, and the others are closed") {
  PeerOf low(0, 2);
  Made given_up;
  Made used;
  Made asks;
  low.peer.post_receive({});
  low.peer.take_link(0, given_up.link(false));
  low.peer.take_link(0, used.link(false));
  low.peer.take_link(0, asks.link(true));
  int waits = 0;
  low.peer.for_each_wait([&](int, int) { ++waits; });
  CHECK(waits == 3);
  CHECK(low.progress().ok());
  CHECK_FALSE(low.peer.was_connected());
  used.say(FrameKind::kBegin);
  CHECK(low.progress().ok());
  CHECK(low.peer.was_connected());
  CHECK_FALSE(used.closed());
  CHECK(given_up.closed());
  CHECK(asks.closed());
}

TEST_CASE("a connection that ends before it begins was given up, one that says else is an error") {
  PeerOf low(0, 2);
  low.peer.post_receive({});
  Made ended;
  low.peer.take_link(0, ended.link(false));
  ended.ends.there.close();
  CHECK(low.progress().ok());
  Made wrong;
  low.peer.take_link(0, wrong.link(false));
  wrong.say(FrameKind::kEndWord);
  CHECK(low.progress().code() == Code::kInternal);
}

TEST_CASE("a peer that refuses three connections in a row has left, unless it has dialed") {
  for (const bool dials : {false, true}) {
    PeerOf low(0, 2);
    low.peer.post_receive({});
    const auto refuse = [&] {
      Made asks;
      low.peer.take_link(0, asks.link(true));
      asks.ends.there.close();
      CHECK(low.progress().ok());
    };
    for (int time = 0; time < 2; ++time) refuse();
    Made begins;
    if (dials) {
      low.peer.take_link(0, begins.link(false));
      begins.say(FrameKind::kBegin);
      CHECK(low.progress().ok());
    }
    refuse();
    std::this_thread::sleep_for(std::chrono::milliseconds(350));  // it might only be late to close
    const Status status = low.peer.look(now());
    CHECK(status.ok() == dials);
    if (!dials) CHECK(status.message() == "rank 6 (pid 3 on c) is gone: it has left the group");
  }
}

}  // namespace
}  // namespace ronde::net
