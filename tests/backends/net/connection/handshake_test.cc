// The peers that the handshake accepts, and those that it refuses.
#include "backends/net/connection/handshake.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <random>

#include "backends/net/connection/frame.h"
#include "core/base/bytes.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::net {
namespace {

Identity identity(int rank, int secret_seed = 1, const std::string& job = "job") {
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes[0] = static_cast<std::byte>(secret_seed);
  Identity result;
  result.purpose = Purpose::kLink;
  result.rank = rank;
  result.size = 4;
  result.context = job;
  result.keys = Keys::derive(Secret(bytes)).value();
  result.self = {"1.2", "node", "id", "10.0.0.1:9", 77};
  return result;
}

/// Handshakes of an identity that outlives them.
Handshake dial(const Identity& identity, int to) {
  return {{std::shared_ptr<void>(), &identity}, to};
}
Handshake listen(const Identity& identity) {
  return Handshake([&identity](Purpose, const Digest&) {
    return std::shared_ptr<const Identity>(std::shared_ptr<void>(), &identity);
  });
}

/// Both ends with the bytes between them.
struct Pair {
  Pair(const Identity& dialing, const Identity& listening)
      : dialer(dial(dialing, listening.rank)), listener(listen(listening)) {
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
  const Identity a = identity(2);
  const Identity b = identity(1);
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

TEST_CASE("a hello has a fixed length") {
  const Identity a = identity(2);
  Handshake dialer = dial(a, 1);
  REQUIRE(dialer.start().ok());
  CHECK(dialer.take_output().size() == kHelloBytes);
}

TEST_CASE("another secret gets through on neither side") {
  const Identity a = identity(2, 1);
  const Identity b = identity(1, 2);
  Pair pair(a, b);
  pair.run();
  CHECK(pair.dialer_status.code() == Code::kInvalidArgument);
  CHECK(pair.listener.wants() != 0);
  CHECK_FALSE(pair.both_done());
  CHECK(pair.listener_status.message().find("another secret") != std::string::npos);
}

TEST_CASE("a dialer that skips the check of the listener is still refused by it") {
  const Identity a = identity(2, 1);
  const Identity b = identity(1, 2);
  Handshake dialer = dial(a, 1);
  Handshake listener = listen(b);
  REQUIRE((dialer.start().ok() && listener.start().ok()));
  REQUIRE(listener.consume(as_bytes(dialer.take_output())).ok());
  const std::string guess(listener.wants(), 'x');
  CHECK(listener.consume(as_bytes(guess)).code() == Code::kInvalidArgument);
}

TEST_CASE("another job, purpose or an impossible rank is refused") {
  const Identity b = identity(1);
  Identity other_purpose = identity(2);
  other_purpose.purpose = Purpose::kData;
  for (const Identity& a :
       {identity(2, 1, "another"), other_purpose, identity(1), identity(4), identity(-1)}) {
    Pair pair(a, b);
    pair.run();
    CHECK(pair.listener_status.code() == Code::kInvalidArgument);
    CHECK(pair.to_dialer.empty());  // dropped without a word
  }
}

TEST_CASE("a listener of another rank than expected is refused") {
  const Identity a = identity(2);
  const Identity b = identity(1);
  Pair pair(a, b);
  Handshake wrong = dial(a, 3);
  REQUIRE(wrong.start().ok());
  std::string wire = wrong.take_output();
  REQUIRE(Pair::feed(pair.listener, wire).ok());
  wire = pair.listener.take_output();
  CHECK(Pair::feed(wrong, wire).code() == Code::kInvalidArgument);
}

TEST_CASE("a recorded handshake cannot be replayed") {
  const Identity a = identity(2);
  const Identity b = identity(1);
  Pair pair(a, b);
  pair.run();
  REQUIRE(pair.both_done());
  Handshake fresh = listen(b);
  REQUIRE(fresh.start().ok());
  std::string recorded = pair.sent_by_dialer;
  CHECK(Pair::feed(fresh, recorded).code() == Code::kInvalidArgument);
  CHECK(fresh.wants() != 0);
}

TEST_CASE("a hello cannot be reflected to the rank that sent it") {
  const Identity a = identity(2);
  Handshake dialer = dial(a, 1);
  REQUIRE(dialer.start().ok());
  const std::string own = dialer.take_output();
  CHECK(dialer.consume(as_bytes(own)).code() == Code::kInvalidArgument);
}

TEST_CASE("an oversized or malformed introduction is refused") {
  const Identity a = identity(2);
  const Identity b = identity(1);
  const auto head = [](const FrameHead& frame) { return std::string(as_text(encode_head(frame))); };
  for (const std::string& intro :
       {head({FrameKind::kData, 0, kMaxIntroductionBytes + 1}), head({FrameKind::kData, 0, 0}),
        head({FrameKind::kBegin, 0, 8}), frame_of("\xff\xff\xff\xff....")}) {
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
  const Identity a = identity(2);
  const Identity b = identity(1);
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

/// Sends `text` from one end to the other and returns it; empty where it was refused.
std::string carried(Tls& from, Tls& to, const std::string& text) {
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
  const FileDescriptor here(fds[0]);
  const FileDescriptor there(fds[1]);
  std::string in(text.size(), ' ');
  const iovec piece{const_cast<char*>(text.data()), text.size()};
  REQUIRE(from.send(here.get(), {&piece, 1}).value() == text.size());
  const iovec room{in.data(), in.size()};
  const auto got = to.receive(there.get(), {&room, 1});
  return got.ok() ? in.substr(0, *got) : "";
}

Identity encrypting(int rank, Encryption mode = Encryption::kOn) {
  Identity made = identity(rank);
  made.encryption = mode;
  return made;
}

TEST_CASE("two ranks that encrypt hide their introductions and share keys for both directions") {
  for (const bool has_aes : {true, false}) {
    Identity a = encrypting(2);
    Identity b = encrypting(1);
    a.has_aes = b.has_aes = has_aes;
    Pair pair(a, b);
    pair.run();
    REQUIRE(pair.both_done());
    CHECK(pair.listener.peer().address == "10.0.0.1:9");
    CHECK(pair.dialer.peer().pid == 77);
    CHECK(pair.sent_by_dialer.find("10.0.0.1:9") == std::string::npos);
    const auto dialer = pair.dialer.take_tls();
    const auto listener = pair.listener.take_tls();
    REQUIRE((dialer && listener));
    CHECK(carried(*dialer, *listener, "to the listener") == "to the listener");
    CHECK(carried(*listener, *dialer, "and back") == "and back");
  }
}

TEST_CASE("two ranks agree on AES unless neither has its instructions") {
  for (const bool dialer_has : {true, false}) {
    Identity a = encrypting(2);
    Identity b = encrypting(1);
    a.has_aes = dialer_has;
    b.has_aes = !dialer_has;
    Pair pair(a, b);
    pair.run();
    REQUIRE(pair.both_done());
    const auto dialer = pair.dialer.take_tls();
    const auto listener = pair.listener.take_tls();
    CHECK(carried(*dialer, *listener, "x") == "x");
  }
  CHECK(choose_cipher(true, false) == Cipher::kAes256Gcm);
  CHECK(choose_cipher(false, true) == Cipher::kAes256Gcm);
  CHECK(choose_cipher(false, false) == Cipher::kChaCha20Poly1305);
}

TEST_CASE("each connection has keys of its own, and a plain one has none") {
  const Identity a = encrypting(2);
  const Identity b = encrypting(1);
  Pair first(a, b);
  Pair second(a, b);
  first.run();
  second.run();
  REQUIRE((first.both_done() && second.both_done()));
  const auto sends = first.dialer.take_tls();
  const auto receives = second.listener.take_tls();
  CHECK(carried(*sends, *receives, "x").empty());
  const Identity plain_a = identity(2);
  const Identity plain_b = identity(1);
  Pair plain(plain_a, plain_b);
  plain.run();
  REQUIRE(plain.both_done());
  CHECK(plain.dialer.take_tls() == nullptr);
  CHECK(plain.sent_by_dialer.find("10.0.0.1:9") != std::string::npos);
}

TEST_CASE("another mode of encryption is refused by both, naming ranks, hosts and modes") {
  using Mode = Encryption;
  for (const auto& modes : {std::pair(Mode::kOff, Mode::kOn), std::pair(Mode::kRequired, Mode::kOn),
                            std::pair(Mode::kRequired, Mode::kOff)}) {
    const Identity a = encrypting(2, modes.first);
    const Identity b = encrypting(1, modes.second);
    Pair pair(a, b);
    pair.run();
    const std::string expected = fmt::format(
        "rank 1 on node has RONDE_ENCRYPTION={}, but rank 2 on node has RONDE_ENCRYPTION={}; set "
        "the same value (off, on or required) on all ranks",
        to_string(modes.second), to_string(modes.first));
    for (const Status& status : {pair.dialer_status, pair.listener_status}) {
      CHECK(status.code() == Code::kMismatch);
      CHECK(status.message() == expected);
    }
  }
}

TEST_CASE("a changed mode does not get past the proofs") {
  const Identity a = encrypting(2);
  const Identity b = encrypting(1);
  for (const std::size_t at : {16U, 17U}) {
    Pair pair(a, b);
    std::string wire = pair.dialer.take_output();
    wire[at] = static_cast<char>(wire[at] ^ 1);
    REQUIRE(Pair::feed(pair.listener, wire).ok());
    wire = pair.listener.take_output();
    CHECK(Pair::feed(pair.dialer, wire).code() == Code::kInvalidArgument);
  }
}

TEST_CASE("another version is refused by both, after the proofs, naming both") {
  const Identity a = identity(2);
  Identity b = identity(1);
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
