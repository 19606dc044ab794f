// Both ends of one connection that carries chunks.
#include "backends/net/peer/chunk_exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

constexpr std::size_t kPairWindow = 64 << 10;

/// One rank: its windows, and its end of the connection once it is greeted.
struct ChunkEnd {
  explicit ChunkEnd(bool the_dials, std::size_t window = kPairWindow)
      : dials(the_dials), windows(window, 1024) {}

  [[nodiscard]] ConnectionArgs args() { return {.dials = dials, .windows = windows}; }
  /// Moves what goes now. False where this end is to be closed.
  bool step(bool takes = true) {
    bool more = false;
    const auto stays = exchange->receive(/*tends=*/false, more);
    REQUIRE(stays.ok());
    REQUIRE(exchange->send(takes, more).ok());
    return *stays;
  }

  bool dials;
  PeerWindows windows;
  std::optional<ChunkExchange> exchange;
};

/// A stream whose next header, which is there, is read.
GreetedConnection greeted(ChunkStream chunks) {
  bool dry = false;
  REQUIRE(chunks.read(dry).value() == ChunkStream::Step::kHeader);
  REQUIRE(chunks.incoming().kind == FrameKind::kBegin);
  return {std::move(chunks), {}, 1};
}

/// Writes one chunk without data.
void write_chunk(ChunkStream& chunks, const ChunkHeader& header) {
  chunks.begin(header, {});
  REQUIRE(chunks.write().value() == Written::kAll);
}

/// Two ranks that have greeted each other.
struct GreetedPair {
  GreetedPair() {
    StreamPair ends;
    ChunkStream dialed(std::move(ends.here), /*heals=*/true);
    write_chunk(dialed, {.kind = FrameKind::kBegin, .sequence = 1});
    acceptor.exchange.emplace(greeted(ChunkStream(std::move(ends.there), true)), acceptor.args());
    bool more = false;
    REQUIRE(acceptor.exchange->send(true, more).ok());
    dialer.exchange.emplace(greeted(std::move(dialed)), dialer.args());
  }
  /// Steps both, more often than these messages need.
  void run(bool acceptor_takes = true) {
    for (int turn = 0; turn < 200; ++turn) {
      REQUIRE(dialer.step());
      REQUIRE(acceptor.step(acceptor_takes));
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

TEST_CASE("a connection that may be dead takes no chunks, but still acknowledges") {
  GreetedPair pair;
  pair.run();
  const auto out = make_frame(0, 0, kPairWindow / 2);
  std::vector<std::byte> in(out.size());
  pair.dialer.windows.sends.post(out);
  pair.acceptor.windows.sends.post(out);
  pair.acceptor.windows.receives.post(in);
  pair.run(/*acceptor_takes=*/false);
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
  REQUIRE(pair.dialer.step());
  REQUIRE(pair.acceptor.step());
  CHECK(pair.acceptor.exchange->may_be_closed());
  REQUIRE(pair.dialer.step());
  CHECK(pair.dialer.exchange->has_ended());
  CHECK_FALSE(pair.acceptor.step());
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
  CHECK_FALSE(pair.dialer.exchange->may_rest());  // until it has carried something
  const auto out = make_frame(0, 0, 1);
  pair.dialer.windows.sends.post(out);
  pair.run();
  CHECK(in == out.front());
  CHECK(pair.dialer.exchange->may_rest());
}

TEST_CASE("a connection that is needed meanwhile is kept, and what the peer held back goes") {
  GreetedPair pair;
  pair.run();
  pair.dialer.exchange->ask_to_rest();
  REQUIRE(pair.dialer.step());
  REQUIRE(pair.acceptor.step());
  REQUIRE(pair.acceptor.exchange->may_be_closed());
  const auto out = make_frame(0, 0, 5);
  std::vector<std::byte> in(out.size());
  pair.acceptor.windows.sends.post(out);
  CHECK_FALSE(pair.acceptor.exchange->has_output(true));
  pair.dialer.windows.receives.post(in);
  pair.run();
  CHECK(in == out);
  CHECK_FALSE(pair.acceptor.exchange->may_be_closed());
  CHECK_FALSE(pair.dialer.exchange->has_ended());
}

TEST_CASE("an acknowledgement of what was not sent is an error") {
  StreamPair ends;
  ChunkStream peer(std::move(ends.here), /*heals=*/true);
  write_chunk(peer, {.kind = FrameKind::kBegin, .sequence = 1});
  ChunkEnd here(false);
  ChunkExchange exchange(greeted(ChunkStream(std::move(ends.there), true)), here.args());
  write_chunk(peer, {.kind = FrameKind::kConfirm, .received = 5});
  bool more = false;
  const Status status = exchange.receive(/*tends=*/false, more).status();
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message() == "acknowledged what was not sent");
}

TEST_CASE("small messages that have arrived come by one read") {
  StreamPair ends;
  ChunkStream out(std::move(ends.here), /*heals=*/false);
  ChunkStream in(std::move(ends.there), /*heals=*/false);
  const auto bytes = make_frame(0, 0, 20);
  for (std::uint64_t number = 0; number < 3; ++number) {
    out.begin({.kind = FrameKind::kData, .length = bytes.size(), .sequence = number}, bytes);
    REQUIRE(out.write().value() == Written::kAll);
  }
  bool dry = false;
  for (std::uint64_t number = 0; number < 3; ++number) {
    REQUIRE(in.read(dry).value() == ChunkStream::Step::kHeader);
    CHECK(in.incoming().sequence == number);
    CHECK(in.has_unread());
    in.place({});
    REQUIRE(in.read(dry).value() == ChunkStream::Step::kChunk);
    CHECK(std::ranges::equal(in.held(), bytes));
  }
  CHECK(in.read(dry).value() == ChunkStream::Step::kNothing);
  CHECK_FALSE(in.has_unread());
  CHECK_FALSE(in.reading());
  CHECK(in.reads() == 1);
}

TEST_CASE("looks are needed once something was written, until the next one") {
  GreetedPair pair;
  pair.run();
  CHECK(pair.dialer.exchange->needs_looks());
  pair.dialer.exchange->look(now());
  CHECK_FALSE(pair.dialer.exchange->needs_looks());
  CHECK_FALSE(pair.dialer.exchange->is_silent());
}

/// This rank, without a window. The test writes and reads the bytes of the other end.
struct WithoutWindow {
  WithoutWindow() { end.exchange.emplace(accepted(), end.args()); }
  GreetedConnection accepted() {
    write_head({FrameKind::kBegin, 1, 0});
    return greeted(ChunkStream(std::move(ends.here), /*heals=*/false));
  }

  void write(std::span<const std::byte> bytes) {
    REQUIRE(send_all(ends.there, bytes, now() + std::chrono::seconds(20)).ok());
  }
  void write_head(const FrameHead& head) { write(encode_head(head)); }
  /// The bytes that this rank has sent, at most `most`.
  std::vector<std::byte> sent(std::size_t most) {
    std::vector<std::byte> bytes(most);
    const iovec piece{bytes.data(), bytes.size()};
    bytes.resize(ends.there.receive({&piece, 1}).value());
    return bytes;
  }
  /// The next frame that it has sent begins so.
  bool has_sent(FrameKind kind, std::uint64_t number, std::uint64_t length) {
    const FrameHead head = decode_head(sent(kFrameHeadBytes));
    return head.kind == kind && head.number == number && head.length == length;
  }
  Status receive(bool tends = false) {
    bool more = false;
    return end.exchange->receive(tends, more).status();
  }

  StreamPair ends;
  ChunkEnd end{false, 0};
};

TEST_CASE("without a window a message is a head and the bytes where the caller has them") {
  WithoutWindow here;
  const auto large = make_frame(0, 0, std::size_t{8} << 20);
  here.end.windows.sends.post(large);
  here.end.windows.sends.post({});
  here.end.step();
  CHECK_FALSE(here.end.windows.sends.sent(0));
  CHECK(here.has_sent(FrameKind::kData, 0, large.size()));
  std::vector<std::byte> out;
  while (out.size() < large.size()) {
    const auto more = here.sent(large.size() - out.size());
    out.insert(out.end(), more.begin(), more.end());
    here.end.step();
  }
  CHECK(out == large);
  CHECK(here.end.windows.sends.sent(1));
  CHECK(here.has_sent(FrameKind::kData, 1, 0));
  CHECK_FALSE(here.end.exchange->has_output(true));
  CHECK(here.end.windows.is_idle());
}

TEST_CASE("without a window a message is whole however its bytes arrive, also between words") {
  WithoutWindow here;
  const auto out = make_frame(0, 0, 20);
  std::vector<std::byte> in(out.size());
  here.end.windows.receives.post(in);
  here.end.windows.receives.post({});
  const FrameHeadBytes head = encode_head({FrameKind::kData, 0, out.size()});
  for (const std::byte& byte : head) {
    here.write({&byte, 1});
    REQUIRE(here.receive().ok());
  }
  for (const std::byte& byte : out) {
    CHECK_FALSE(here.end.windows.receives.received(0));
    here.write({&byte, 1});
    REQUIRE(here.receive().ok());
  }
  CHECK(here.end.windows.receives.received(0));
  CHECK(in == out);
  here.write_head({FrameKind::kEndWord, static_cast<std::uint64_t>(EndWord::kAsk), 0});
  here.write_head({FrameKind::kData, 1, 0});
  REQUIRE(here.receive().ok());
  CHECK(here.end.windows.receives.received(1));
  here.end.step();
  CHECK(here.has_sent(FrameKind::kEndWord, static_cast<std::uint64_t>(EndWord::kRefuse), 0));
}

TEST_CASE("without a window a message that nobody awaits stays in the socket behind its head") {
  WithoutWindow here;
  const auto out = make_frame(0, 0, 4);
  here.write_head({FrameKind::kData, 0, out.size()});
  here.write(out);
  REQUIRE(here.receive(/*tends=*/true).ok());
  CHECK_FALSE(here.end.exchange->reads(/*tends=*/true));
  CHECK_FALSE(here.end.exchange->may_rest());
  std::vector<std::byte> in(4);
  here.end.windows.receives.post(in);
  CHECK(here.end.exchange->reads());
  REQUIRE(here.receive().ok());
  CHECK(in == out);
  CHECK(here.end.exchange->may_rest());
}

TEST_CASE(
    "without a window another length than the awaited one is an error, and no byte is taken") {
  WithoutWindow here;
  std::vector<std::byte> in(5);
  here.end.windows.receives.post(in);
  here.write_head({FrameKind::kData, 0, 3});
  here.write(make_frame(0, 1, 3));
  const Status status = here.receive();
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message() == "sent 3 bytes where 5 were expected");
  CHECK(in == std::vector<std::byte>(5));
}

TEST_CASE("without a window a frame that is neither the next message nor a word is an error") {
  for (const FrameHead& wrong :
       {FrameHead{FrameKind::kData, 1, 3}, FrameHead{FrameKind::kLast, 0, 0},
        FrameHead{FrameKind::kEndWord, 1, 3}, FrameHead{FrameKind::kHeartbeat, 0, 0},
        FrameHead{FrameKind{200}, 0, 0}}) {
    WithoutWindow here;
    std::vector<std::byte> in(3);
    here.end.windows.receives.post(in);
    here.write_head(wrong);
    CHECK(here.receive().code() == Code::kInternal);
  }
}

}  // namespace
}  // namespace ronde::net
