// Connections that carry nothing yet, in the orders in which peers make and close them.
#include "backends/net/transport/pending_links.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

/// A connection of the peer, and what the peer does with it.
struct Made {
  Link link() { return {.rank = 1, .stream = std::move(ends.here)}; }
  void say(std::uint64_t word) {
    REQUIRE(send_all(ends.there, peer_word(word), now() + std::chrono::seconds(20)).ok());
  }
  /// True where this rank has closed it.
  bool closed() {
    std::byte byte{};
    const iovec piece{&byte, 1};
    return !ends.there.receive({&piece, 1}).ok();
  }
  StreamPair ends;
};

TEST_CASE("the connection whose dialer begins is used, and the others are closed") {
  PendingLinks pending;
  Made given_up;
  Made used;
  Made watched;
  pending.add(given_up.link());
  pending.add(used.link());
  pending.watch(watched.link());
  CHECK_FALSE(pending.take_begun());
  used.say(kBegin);
  const auto begun = pending.take_begun();
  REQUIRE(begun);
  CHECK(begun->stream.valid());
  CHECK_FALSE(used.closed());
  CHECK(given_up.closed());
  CHECK(watched.closed());
  CHECK(pending.empty());
  CHECK_FALSE(pending.watches());
}

TEST_CASE("a connection that ends or says something else before it begins is given up") {
  PendingLinks pending;
  Made ended;
  Made wrong;
  pending.add(ended.link());
  pending.add(wrong.link());
  CHECK_FALSE(pending.empty());
  ended.ends.there.close();
  wrong.say(7);
  CHECK_FALSE(pending.take_begun());
  CHECK(pending.empty());
  CHECK(wrong.closed());
}

TEST_CASE("the first watched connection that ends is forgiven, the second is a departure") {
  PendingLinks pending;
  CHECK(pending.look_for_departure().ok());
  for (const bool first : {true, false}) {
    Made watched;
    pending.watch(watched.link());
    CHECK(pending.look_for_departure().ok());
    watched.ends.there.close();
    const Status departure = pending.look_for_departure();
    CHECK(departure.ok() == first);
    CHECK(pending.watches() != first);
  }
}

TEST_CASE("a connection that begins makes earlier ends count no more") {
  PendingLinks pending;
  for (int round = 0; round < 2; ++round) {
    Made watched;
    pending.watch(watched.link());
    watched.ends.there.close();
    CHECK(pending.look_for_departure().ok());
    Made begins;
    pending.add(begins.link());
    begins.say(kBegin);
    CHECK(pending.take_begun());
  }
}

TEST_CASE("a watched connection is given up once it has ended, not before") {
  PendingLinks pending;
  Made watched;
  pending.watch(watched.link());
  pending.stop_watching_ended();
  CHECK(pending.watches());
  watched.ends.there.close();
  pending.stop_watching_ended();
  CHECK_FALSE(pending.watches());
}

TEST_CASE("the descriptors to wait for are those of all connections that are held") {
  PendingLinks pending;
  std::vector<int> made;
  std::vector<int> listed;
  const auto list = [&](int fd) { listed.push_back(fd); };
  pending.for_watched(list);
  CHECK(listed.empty());
  std::vector<Made> ends(3);
  for (Made& each : ends) made.push_back(each.ends.here.fd());
  pending.add(ends[0].link());
  pending.add(ends[1].link());
  pending.watch(ends[2].link());
  pending.for_each_candidate(list);
  pending.for_watched(list);
  CHECK(listed == made);
}

}  // namespace
}  // namespace ronde::net
