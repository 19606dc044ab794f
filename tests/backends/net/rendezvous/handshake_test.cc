// The peers that the handshake accepts, and those that it refuses.
#include "backends/net/rendezvous/handshake.h"

#include <doctest/doctest.h>

#include <random>

#include "core/base/bytes.h"

namespace ronde::net {
namespace {

Party party(int rank, int secret_seed = 1, const std::string& job = "job") {
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes[0] = static_cast<std::byte>(secret_seed);
  Party result;
  result.purpose = Purpose::kLink;
  result.rank = rank;
  result.size = 4;
  result.context = job;
  result.keys = Keys::derive(Secret(bytes)).value();
  result.self = {"1.2", "node", "id", "10.0.0.1:9", 77};
  return result;
}

/// Both ends with the bytes between them.
struct Pair {
  Pair(const Party& dialing, const Party& listening)
      : dialer(dialing, Handshake::Role::kDialer, listening.rank),
        listener(listening, Handshake::Role::kListener) {
    REQUIRE(dialer.start().ok());
    REQUIRE(listener.start().ok());
  }

  /// Gives `to` its next bytes from `wire`; ok where there are too few.
  static Status feed(Handshake& to, std::string& wire) {
    while (to.wants() != 0 && wire.size() >= to.wants()) {
      const std::string piece = wire.substr(0, to.wants());
      wire.erase(0, to.wants());
      RONDE_RETURN_IF_ERROR(to.consume(as_bytes(piece)));
    }
    return {};
  }

  /// Runs it to the end; the first refusal of each side.
  void run() {
    for (int i = 0; i < 4; ++i) {
      to_listener += dialer.take_output();
      sent_by_dialer += to_listener;
      if (listener_status.ok()) listener_status = feed(listener, to_listener);
      to_dialer += listener.take_output();
      if (dialer_status.ok()) dialer_status = feed(dialer, to_dialer);
    }
  }
  [[nodiscard]] bool both_done() const { return dialer.wants() == 0 && listener.wants() == 0; }

  Handshake dialer;
  Handshake listener;
  std::string to_listener;
  std::string to_dialer;
  std::string sent_by_dialer;
  Status dialer_status;
  Status listener_status;
};

TEST_CASE("two ranks of a job get to know each other") {
  const Party a = party(2);
  const Party b = party(1);
  Pair pair(a, b);
  pair.run();
  CHECK(pair.dialer_status.ok());
  CHECK(pair.listener_status.ok());
  REQUIRE(pair.both_done());
  CHECK(pair.listener.peer_rank() == 2);
  CHECK(pair.dialer.peer_rank() == 1);
  CHECK(pair.listener.peer().address == "10.0.0.1:9");
  CHECK(pair.dialer.peer().pid == 77);
}

TEST_CASE("a hello is 64 bytes") {
  const Party a = party(2);
  Handshake dialer(a, Handshake::Role::kDialer, 1);
  REQUIRE(dialer.start().ok());
  CHECK(dialer.take_output().size() == 64);
}

TEST_CASE("another secret gets through on neither side") {
  const Party a = party(2, 1);
  const Party b = party(1, 2);
  Pair pair(a, b);
  pair.run();
  CHECK(pair.dialer_status.code() == Code::kInvalidArgument);
  CHECK(pair.listener.wants() != 0);
  CHECK_FALSE(pair.both_done());
}

TEST_CASE("a dialer that skips the check of the listener is still refused by it") {
  const Party a = party(2, 1);
  const Party b = party(1, 2);
  Handshake dialer(a, Handshake::Role::kDialer, 1);
  Handshake listener(b, Handshake::Role::kListener);
  REQUIRE((dialer.start().ok() && listener.start().ok()));
  REQUIRE(listener.consume(as_bytes(dialer.take_output())).ok());
  const std::string guess(listener.wants(), 'x');
  CHECK(listener.consume(as_bytes(guess)).code() == Code::kInvalidArgument);
}

TEST_CASE("another job, purpose or an impossible rank is refused") {
  const Party b = party(1);
  Party other_purpose = party(2);
  other_purpose.purpose = Purpose::kData;
  for (const Party& a : {party(2, 1, "another"), other_purpose, party(1), party(4), party(-1)}) {
    Pair pair(a, b);
    pair.run();
    CHECK(pair.listener_status.code() == Code::kInvalidArgument);
    CHECK(pair.to_dialer.empty());  // dropped without a word
  }
}

TEST_CASE("a listener of another rank than expected is refused") {
  const Party a = party(2);
  const Party b = party(1);
  Pair pair(a, b);
  Handshake wrong(a, Handshake::Role::kDialer, 3);
  REQUIRE(wrong.start().ok());
  std::string wire = wrong.take_output();
  REQUIRE(Pair::feed(pair.listener, wire).ok());
  wire = pair.listener.take_output();
  CHECK(Pair::feed(wrong, wire).code() == Code::kInvalidArgument);
}

TEST_CASE("a recorded handshake cannot be replayed") {
  const Party a = party(2);
  const Party b = party(1);
  Pair pair(a, b);
  pair.run();
  REQUIRE(pair.both_done());
  Handshake fresh(b, Handshake::Role::kListener);
  REQUIRE(fresh.start().ok());
  std::string recorded = pair.sent_by_dialer;
  CHECK(Pair::feed(fresh, recorded).code() == Code::kInvalidArgument);
  CHECK(fresh.wants() != 0);
}

TEST_CASE("a hello cannot be reflected to the rank that sent it") {
  const Party a = party(2);
  Handshake dialer(a, Handshake::Role::kDialer, 1);
  REQUIRE(dialer.start().ok());
  const std::string own = dialer.take_output();
  CHECK(dialer.consume(as_bytes(own)).code() == Code::kInvalidArgument);
}

TEST_CASE("an oversized or malformed introduction is refused") {
  const Party a = party(2);
  const Party b = party(1);
  for (const std::string& intro : {std::string("\xff\xff\xff\x7f", 4), std::string("\0\0\0\0", 4),
                                   std::string("\x08\0\0\0\xff\xff\xff\xff....", 12)}) {
    Pair pair(a, b);
    std::string wire = pair.dialer.take_output();
    REQUIRE(Pair::feed(pair.listener, wire).ok());
    wire = pair.listener.take_output();
    REQUIRE(Pair::feed(pair.dialer, wire).ok());
    wire = pair.dialer.take_output().substr(0, 32) + intro;
    CHECK(Pair::feed(pair.listener, wire).code() == Code::kInvalidArgument);
  }
}

TEST_CASE("random bytes and flipped bits are never let in") {
  std::mt19937 random(7);
  const Party a = party(2);
  const Party b = party(1);
  for (int i = 0; i < 3000; ++i) {
    Pair pair(a, b);
    std::string wire = pair.dialer.take_output();
    const std::size_t at = random() % wire.size();
    wire[at] = static_cast<char>(wire[at] ^ static_cast<char>(1 << random() % 8));
    if (Pair::feed(pair.listener, wire).ok()) {  // the nonce: the proof then does not fit
      wire = pair.listener.take_output();
      CHECK(!Pair::feed(pair.dialer, wire).ok());
    }
    CHECK(pair.listener.wants() != 0);
  }
}

TEST_CASE("another version is refused by both, after the proofs, naming both") {
  const Party a = party(2);
  Party b = party(1);
  b.self.version = "1.3";
  Pair pair(a, b);
  pair.run();
  for (const Status& status : {pair.dialer_status, pair.listener_status}) {
    CHECK(status.code() == Code::kVersionMismatch);
    CHECK(status.message().find("rank 1 on node runs Ronde 1.3, but rank 2 on node runs Ronde "
                                "1.2") == 0);
  }
}

}  // namespace
}  // namespace ronde::net
