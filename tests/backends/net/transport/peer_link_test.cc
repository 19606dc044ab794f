// The connection with one peer, whose other end the test holds.
#include "backends/net/transport/peer_link.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>

namespace ronde::net {
namespace {

/// A link of the dialing rank, and the peer's end of its connection.
struct Connected {
  Connected() {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    link.attach({.rank = 0, .stream = Stream(FileDescriptor(fds[0])), .dialed = true});
    peer.reset(fds[1]);
    bool more = false;
    REQUIRE(link.progress_sends(more).ok());
  }
  PeerLink link{true};
  FileDescriptor peer;
};

TEST_CASE("a peer that leaves while it is asked to end the connection leaves nothing to do") {
  Connected ends;
  REQUIRE(ends.link.idle());
  ends.peer.reset();
  ends.link.ask_to_end();
  ends.link.tend();
  CHECK_FALSE(ends.link.has_posted());
  CHECK_FALSE(ends.link.connected());
}

TEST_CASE("a connection that broke while nobody used it is an error once it is used") {
  Connected ends;
  ends.peer.reset();
  ends.link.tend();
  std::byte byte{1};
  (void)ends.link.post_send({&byte, 1});
  bool more = false;
  CHECK(ends.link.progress_sends(more).code() == Code::kUnavailable);
}

}  // namespace
}  // namespace ronde::net
