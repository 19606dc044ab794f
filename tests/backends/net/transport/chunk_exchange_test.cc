// Both ends of one connection that carries chunks.
#include "backends/net/transport/chunk_exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

constexpr std::size_t kPairWindow = 64 << 10;

/// One rank: its windows, and its end of the connection once it is greeted.
struct ChunkEnd {
  explicit ChunkEnd(bool the_dials) : dials(the_dials) {}

  [[nodiscard]] Lane lane() { return {.dials = dials, .windows = windows}; }
  /// Moves what goes now. False where this end is to be closed.
  bool step(bool& moved, bool takes = true) {
    const auto stays = exchange->receive(moved);
    REQUIRE(stays.ok());
    REQUIRE(exchange->send(takes, moved).ok());
    return *stays;
  }

  bool dials;
  PeerWindows windows{kPairWindow, 1024};
  std::optional<ChunkExchange> exchange;
};

/// A stream whose next header, which is there, is read.
GreetedConnection greeted(ChunkStream chunks) {
  bool moved = false;
  REQUIRE(chunks.read(moved).value() == ChunkStream::Step::kHeader);
  REQUIRE(chunks.incoming().kind == ChunkKind::kGreeting);
  return {std::move(chunks), {}};
}

/// Writes one chunk without data.
void write_chunk(ChunkStream& chunks, const ChunkHeader& header) {
  bool moved = false;
  chunks.begin(header, {});
  REQUIRE(chunks.write(moved).value());
}

/// Two ranks that have greeted each other.
struct GreetedPair {
  GreetedPair() {
    StreamPair ends;
    ChunkStream dialed(std::move(ends.here));
    write_chunk(dialed, {.kind = ChunkKind::kGreeting, .message = 1});
    acceptor.exchange.emplace(greeted(ChunkStream(std::move(ends.there))), acceptor.lane());
    bool moved = false;
    REQUIRE(acceptor.exchange->send(true, moved).ok());
    dialer.exchange.emplace(greeted(std::move(dialed)), dialer.lane());
  }
  /// Steps both until nothing moves.
  void run() {
    bool moved = true;
    while (std::exchange(moved, false)) {
      REQUIRE(dialer.step(moved));
      REQUIRE(acceptor.step(moved));
    }
  }
  ChunkEnd dialer{true};
  ChunkEnd acceptor{false};
};

TEST_CASE("messages go both ways, however large, and both ends learn that they have arrived") {
  GreetedPair pair;
  const auto out = make_frame(0, 0, 20 * kPairWindow + 3);
  const auto back = make_frame(1, 0, 5);
  std::vector<std::byte> in(out.size());
  std::vector<std::byte> in_back(back.size());
  pair.dialer.windows.sends.post(out);
  pair.acceptor.windows.sends.post(back);
  pair.acceptor.windows.receives.post(in);
  pair.dialer.windows.receives.post(in_back);
  pair.run();
  CHECK(in == out);
  CHECK(in_back == back);
  CHECK(pair.dialer.windows.sends.sent(0));
  CHECK_FALSE(pair.dialer.exchange->has_output(true));
}

TEST_CASE("a lane that may be dead takes no chunks, but still acknowledges") {
  GreetedPair pair;
  pair.run();
  const auto out = make_frame(0, 0, kPairWindow / 2);
  std::vector<std::byte> in(out.size());
  pair.dialer.windows.sends.post(out);
  pair.acceptor.windows.sends.post(out);
  pair.acceptor.windows.receives.post(in);
  bool moved = true;
  while (std::exchange(moved, false)) {
    pair.dialer.step(moved);
    pair.acceptor.step(moved, /*takes=*/false);
  }
  CHECK(in == out);
  CHECK_FALSE(pair.dialer.windows.sends.has_unconfirmed());
  CHECK(pair.acceptor.windows.sends.has_waiting());
  CHECK_FALSE(pair.acceptor.exchange->has_output(false));
  CHECK(pair.acceptor.exchange->has_output(true));
}

TEST_CASE("an end that asked for a rest closes once the other agrees") {
  GreetedPair pair;
  pair.run();
  REQUIRE(pair.dialer.exchange->may_rest());
  pair.dialer.exchange->ask_to_rest();
  CHECK_FALSE(pair.dialer.exchange->may_rest());
  bool moved = false;
  REQUIRE(pair.dialer.step(moved));
  REQUIRE(pair.acceptor.step(moved));
  CHECK(pair.acceptor.exchange->may_be_closed());
  CHECK_FALSE(pair.dialer.step(moved));
}

TEST_CASE("a connection that carries transfers may not rest, and a busy end does not agree") {
  GreetedPair pair;
  pair.run();
  std::byte in{};
  pair.acceptor.windows.receives.post({&in, 1});
  CHECK_FALSE(pair.acceptor.exchange->may_rest());
  pair.dialer.exchange->ask_to_rest();
  pair.run();
  CHECK_FALSE(pair.acceptor.exchange->may_be_closed());
}

TEST_CASE("an acknowledgement of what was not sent is an error") {
  StreamPair ends;
  ChunkStream peer(std::move(ends.here));
  write_chunk(peer, {.kind = ChunkKind::kGreeting, .message = 1});
  ChunkEnd here(false);
  ChunkExchange exchange(greeted(ChunkStream(std::move(ends.there))), here.lane());
  write_chunk(peer, {.kind = ChunkKind::kAcknowledgement, .received = 5});
  bool moved = false;
  const Status status = exchange.receive(moved).status();
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message() == "acknowledged what was not sent");
}

TEST_CASE("looks are needed once something was written, until the next one") {
  GreetedPair pair;
  pair.run();
  CHECK(pair.dialer.exchange->needs_looks());
  pair.dialer.exchange->look(now());
  CHECK_FALSE(pair.dialer.exchange->needs_looks());
  CHECK_FALSE(pair.dialer.exchange->is_silent());
}

}  // namespace
}  // namespace ronde::net
