// Encrypted streams: keys, partial sends and receives, tampering, ends, and cuts.
#include "backends/net/connection/tls.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>
#include <vector>

#include "backends/net/connection/stream.h"
#include "core/base/bytes.h"

namespace ronde::net {
namespace {

Secret secret(int seed) {
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes[0] = static_cast<std::byte>(seed);
  return Secret(bytes);
}

/// Both ends of a connection, which has no socket yet.
struct Ends {
  explicit Ends(Cipher cipher = Cipher::kAes256Gcm, int client_key = 1, int server_key = 1,
                std::uint64_t records_per_key = kRecordsPerKey)
      : client(make(true, secret(client_key), cipher, records_per_key)),
        server(make(false, secret(server_key), cipher, records_per_key)) {
    std::string bytes;
    for (int turn = 0; turn < 3 && status.ok(); ++turn) {
      status = client->shake_hands(as_bytes(bytes));
      if (status.ok()) status = server->shake_hands(as_bytes(client->take_output()));
      bytes = server->take_output();
    }
  }
  static std::unique_ptr<Tls> make(bool dials, const Secret& key, Cipher cipher,
                                   std::uint64_t records_per_key) {
    auto made = Tls::make(
        {.dials = dials, .key = key, .cipher = cipher, .records_per_key = records_per_key});
    REQUIRE(made.ok());
    (*made)->set_ends("rank 0 on a and rank 1 on b");
    return std::move(*made);
  }
  [[nodiscard]] bool established() const {
    return status.ok() && client->established() && server->established();
  }
  std::unique_ptr<Tls> client;
  std::unique_ptr<Tls> server;
  Status status;
};

/// Two encrypted streams; the bytes between them pass through the test.
struct Relayed {
  explicit Relayed(Ends ends = Ends()) {
    REQUIRE(ends.established());
    here = Stream(end(to_here), std::move(ends.client));
    there = Stream(end(to_there), std::move(ends.server));
  }
  static FileDescriptor end(FileDescriptor& other) {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    other = FileDescriptor(fds[1]);
    return FileDescriptor(fds[0]);
  }
  /// Takes the bytes that `here` has sent.
  [[nodiscard]] std::string taken() const {
    std::string bytes(std::size_t{1} << 20, '\0');
    const ssize_t got = ::recv(to_here.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }
  void deliver(const std::string& bytes) const {
    REQUIRE(::send(to_there.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  FileDescriptor to_here;
  FileDescriptor to_there;
  Stream here;
  Stream there;
};

void send(Stream& stream, const std::string& text) {
  REQUIRE(send_all(stream, as_bytes(text), now() + std::chrono::seconds(10)).ok());
}

Result<std::string> receive(Stream& stream, std::size_t most) {
  std::string text(most, '\0');
  const iovec room{text.data(), text.size()};
  RONDE_ASSIGN_OR_RETURN(const std::size_t got, stream.receive({&room, 1}));
  return text.substr(0, got);
}

TEST_CASE("both ends need the same key, and the same cipher") {
  CHECK(Ends(Cipher::kAes256Gcm).established());
  CHECK(Ends(Cipher::kChaCha20Poly1305).established());
  for (const Cipher cipher : {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305}) {
    const Ends ends(cipher, 1, 2);
    CHECK_FALSE(ends.established());
    CHECK(ends.status.code() == Code::kInvalidArgument);
    CHECK(ends.status.message() == "the other side has another key for this connection");
  }
}

TEST_CASE("random bytes are no handshake, and one that comes in pieces goes on") {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const auto server = Ends::make(i % 2 == 0, secret(1), Cipher::kAes256Gcm, kRecordsPerKey);
    if (i % 2 == 0) REQUIRE(server->shake_hands({}).ok());
    std::string bytes(40 + random() % 200, '\0');
    for (char& each : bytes) each = static_cast<char>(random());
    (void)server->shake_hands(as_bytes(bytes)).ok();  // where it announces more, more is awaited
    CHECK_FALSE(server->established());
  }
  const auto server = Ends::make(false, secret(1), Cipher::kAes256Gcm, kRecordsPerKey);
  const auto client = Ends::make(true, secret(1), Cipher::kAes256Gcm, kRecordsPerKey);
  REQUIRE(client->shake_hands({}).ok());
  const std::string hello = client->take_output();
  CHECK(length_of_record(as_bytes(hello).first(kRecordHeadBytes)) ==
        hello.size() - kRecordHeadBytes);
  CHECK(server->shake_hands(as_bytes(hello).first(hello.size() / 2)).ok());
  CHECK(server->take_output().empty());
  CHECK(server->shake_hands(as_bytes(hello).subspan(hello.size() / 2)).ok());
  CHECK_FALSE(server->take_output().empty());
}

TEST_CASE("what one end sends in any pieces arrives at the other in any pieces") {
  std::mt19937 random(3);
  for (const Cipher cipher : {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305}) {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    Ends ends(cipher);
    REQUIRE(ends.established());
    Stream here(FileDescriptor(fds[0]), std::move(ends.client));
    Stream there(FileDescriptor(fds[1]), std::move(ends.server));
    std::vector<std::byte> out(std::size_t{5} << 20);
    for (std::byte& each : out) each = static_cast<std::byte>(random());
    std::vector<std::byte> in(out.size());
    std::size_t sent = 0;
    std::size_t received = 0;
    bool waited = false;
    while (received < in.size()) {
      const auto piece = [&](std::vector<std::byte>& all, std::size_t done) {
        const std::size_t most = std::size_t{1} << random() % 22;
        const std::size_t bytes = std::min(most, all.size() - done);
        return std::array<iovec, 2>{iovec{all.data() + done, bytes / 3},
                                    iovec{all.data() + done + bytes / 3, bytes - bytes / 3}};
      };
      const auto more = here.send(piece(out, sent));
      REQUIRE(more.ok());
      sent += *more;
      waited = waited || here.has_unsent();
      const auto got = there.receive(piece(in, received));
      REQUIRE(got.ok());
      received += *got;
    }
    CHECK(waited);
    CHECK(in == out);
    CHECK_FALSE(here.has_unsent());
    CHECK_FALSE(there.has_unread());
  }
}

TEST_CASE("contents are not on the wire, and short pieces share a record") {
  Relayed pair;
  const std::string head = "head ";
  const std::string body(1000, 'b');
  const std::array<iovec, 2> pieces{iovec{const_cast<char*>(head.data()), head.size()},
                                    iovec{const_cast<char*>(body.data()), body.size()}};
  REQUIRE(pair.here.send(pieces).value() == head.size() + body.size());
  const std::string bytes = pair.taken();
  CHECK(bytes.size() < head.size() + body.size() + 40);
  CHECK(bytes.find("bbbb") == std::string::npos);
  pair.deliver(bytes);
  CHECK(receive(pair.there, 2000).value() == head + body);
}

TEST_CASE("keys change in time, and both sides go on") {
  Relayed pair(Ends(Cipher::kAes256Gcm, 1, 1, 3));
  for (int i = 0; i < 20; ++i) {
    const std::string text = "text " + std::to_string(i);
    send(pair.here, text);
    pair.deliver(pair.taken());
    CHECK(receive(pair.there, 100).value() == text);
  }
}

TEST_CASE("no bit of a record can be flipped") {
  std::size_t size = 100;
  for (std::size_t bit = 0; bit < 8 * size; bit += 7) {
    Relayed pair;
    send(pair.here, "a text");
    std::string bytes = pair.taken();
    size = bytes.size();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ static_cast<char>(1 << bit % 8));
    pair.deliver(bytes);
    pair.to_there.reset();  // a longer record never comes
    CHECK_FALSE(receive(pair.there, 100).ok());
  }
}

TEST_CASE("a record that is replayed, dropped or moved ends the stream") {
  const auto records = [](Relayed& pair) {
    std::vector<std::string> each;
    for (const char* text : {"one", "two", "three"}) {
      send(pair.here, text);
      each.push_back(pair.taken());
    }
    return each;
  };
  for (const auto& order : {std::vector<std::size_t>{0, 0}, {1, 2}, {1, 0}, {0, 2, 1}}) {
    Relayed pair;
    const auto each = records(pair);
    Status status;
    for (const std::size_t index : order) pair.deliver(each[index]);
    for (std::size_t i = 0; i < order.size() && status.ok(); ++i) {
      status = receive(pair.there, 100).status();
    }
    CHECK(status.code() == Code::kInvalidArgument);
  }
}

TEST_CASE("decrypted bytes that wait are told") {
  Relayed pair;
  send(pair.here, "abcdef");
  pair.deliver(pair.taken());
  CHECK(receive(pair.there, 2).value() == "ab");
  CHECK(pair.there.has_unread());
  CHECK(receive(pair.there, 10).value() == "cdef");
  CHECK_FALSE(pair.there.has_unread());
  CHECK(receive(pair.there, 10).value().empty());
}

TEST_CASE("a changed record ends the stream for both, naming both ends") {
  Relayed pair;
  send(pair.here, "first");
  pair.deliver(pair.taken());
  CHECK(receive(pair.there, 10).value() == "first");
  send(pair.here, "second");
  std::string bytes = pair.taken();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  pair.deliver(bytes);
  const Status status = receive(pair.there, 10).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() ==
        "between rank 0 on a and rank 1 on b delivered a record that is not as it was sent: it was "
        "changed, replayed, dropped or moved on the way");
  CHECK(receive(pair.there, 10).status().message() == status.message());
  // The other end learns it from this one.
  pair.there.close();
  std::string word(100, ' ');
  const ssize_t got = ::recv(pair.to_there.get(), word.data(), word.size(), 0);
  REQUIRE(got > 0);
  REQUIRE(::send(pair.to_here.get(), word.data(), static_cast<std::size_t>(got), 0) == got);
  const Status other = receive(pair.here, 10).status();
  CHECK(other.code() == Code::kInvalidArgument);
  CHECK(other.message().find("between rank 0 on a and rank 1 on b was closed by the peer") == 0);
}

TEST_CASE("what came before a changed record is delivered first") {
  Relayed pair;
  send(pair.here, "good");
  std::string bytes = pair.taken();
  send(pair.here, "changed");
  bytes += pair.taken();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  pair.deliver(bytes);
  CHECK(receive(pair.there, 100).value() == "good");
  CHECK(receive(pair.there, 100).status().code() == Code::kInvalidArgument);
}

TEST_CASE("a proper end is told from a cut") {
  for (const bool cut : {false, true}) {
    Relayed pair;
    send(pair.here, "last");
    pair.here.close();
    std::string bytes = pair.taken();
    if (cut) bytes.resize(bytes.size() - 1);
    pair.deliver(bytes);
    pair.to_there.reset();
    CHECK(receive(pair.there, 10).value() == "last");
    const Status end = receive(pair.there, 10).status();
    CHECK(end.code() == Code::kUnavailable);
    CHECK(end.message() ==
          (cut ? "ended without its sealed end: the peer died, or somebody cut the connection"
               : "was closed"));
  }
}

TEST_CASE("a forked child that closes its copy does not end the parent's stream") {
  Relayed pair;
  const pid_t child = ::fork();
  if (child == 0) {
    pair.here.close();
    ::_exit(0);
  }
  int code = -1;
  REQUIRE(::waitpid(child, &code, 0) == child);
  CHECK(pair.taken().empty());
  send(pair.here, "alive");
  pair.deliver(pair.taken());
  CHECK(receive(pair.there, 10).value() == "alive");
}

TEST_CASE("random bytes instead of records are refused and never hang") {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    Relayed pair;
    std::string bytes(40 + random() % 200, '\0');
    for (char& each : bytes) each = static_cast<char>(random());
    pair.deliver(bytes);
    CHECK(receive(pair.there, 100).status().code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ronde::net
