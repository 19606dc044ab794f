// Sealed streams: partial sends and receives, ends, and cuts.
#include "backends/net/link/sealed_io.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>
#include <vector>

#include "backends/net/link/stream.h"
#include "core/base/bytes.h"

namespace ronde::net {
namespace {

std::unique_ptr<SealedIo> sealed(Cipher cipher, bool first) {
  std::array<std::byte, Secret::kBytes> bytes{};
  const Secret one = Secret(bytes).derive("one").value();
  const Secret two = Secret(bytes).derive("two").value();
  auto made = std::make_unique<SealedIo>(Sealer(cipher, first ? one : two),
                                         Opener(cipher, first ? two : one));
  made->set_ends("rank 0 on a and rank 1 on b");
  return made;
}

/// Two sealed streams; the bytes between them pass through the test.
struct Relayed {
  explicit Relayed(Cipher cipher = Cipher::kAes256Gcm) {
    here = Stream(end(to_here), sealed(cipher, true));
    there = Stream(end(to_there), sealed(cipher, false));
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

TEST_CASE("what one end sends in any pieces arrives at the other in any pieces") {
  std::mt19937 random(3);
  for (const Cipher cipher : {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305}) {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    Stream here(FileDescriptor(fds[0]), sealed(cipher, true));
    Stream there(FileDescriptor(fds[1]), sealed(cipher, false));
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

TEST_CASE("opened bytes that wait are told") {
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
    std::string bytes(kHeadBytes + random() % 200, '\0');
    for (char& each : bytes) each = static_cast<char>(random());
    pair.deliver(bytes);
    CHECK(receive(pair.there, 100).status().code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ronde::net
