// The connection with one peer, whose other end the test holds.
#include "backends/net/transport/peer_link.h"

#include <doctest/doctest.h>

#include <utility>

#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

/// A link of the dialing rank, and the peer's end of its connection.
struct Connected {
  Connected() {
    link.attach({.rank = 0, .stream = std::move(ends.here), .dialed = true});
    bool more = false;
    REQUIRE(link.progress_sends(more).ok());
  }
  StreamPair ends;
  PeerLink link{true};
};

TEST_CASE("a peer that leaves while it is asked to end the connection leaves nothing to do") {
  Connected connected;
  REQUIRE(connected.link.idle());
  connected.ends.there.close();
  connected.link.ask_to_end();
  connected.link.tend();
  CHECK_FALSE(connected.link.has_posted());
  CHECK_FALSE(connected.link.connected());
}

TEST_CASE("a connection that broke while nobody used it is an error once it is used") {
  Connected connected;
  connected.ends.there.close();
  connected.link.tend();
  std::byte byte{1};
  (void)connected.link.post_send({&byte, 1});
  bool more = false;
  CHECK(connected.link.progress_sends(more).code() == Code::kUnavailable);
}

}  // namespace
}  // namespace ronde::net
