// A session keeps messages, sends them again and takes each once.
#include "backends/net/channel/link_session.h"

#include <doctest/doctest.h>

#include "tests/backends/net/channel/one_end.h"
#include "tests/backends/net/channel_peer.h"

namespace ronde::net {
namespace {

constexpr std::size_t kHead = kLinkHeadBytes;
const auto kFrame = make_frame(0, 0, 10);

void send(LinkSession& session) { session.send(LinkMessage::kFrame, kFrame); }

TEST_CASE("messages wait for the first link") {
  for (const bool heals : {false, true}) {
    LinkSession session(heals);
    send(session);
    CHECK(session.needs_link());
    CHECK(session.has_kept());
    OneEnd end;
    session.use(*end, 0);
    CHECK(end.sent() == kHead + 10);
    CHECK(session.has_kept() == heals);
  }
}

TEST_CASE("a link that ends without healing is the last one") {
  LinkSession session(false);
  OneEnd end;
  session.use(*end, 0);
  session.drop(*end);
  CHECK_FALSE(session.needs_link());
  send(session);
  CHECK_FALSE(session.has_kept());
}

TEST_CASE("the next link carries what the peer has not received, and only that") {
  LinkSession session(true);
  OneEnd first;
  session.use(*first, 0);
  for (int i = 0; i < 5; ++i) send(session);
  CHECK(session.confirm(2));
  session.drop(*first);
  CHECK(session.needs_link());
  send(session);
  OneEnd second;
  session.use(*second, 4);  // it has received more than it had confirmed
  CHECK(second.sent() == 2 * (kHead + 10));
  CHECK(session.confirm(4));
  CHECK(session.has_kept());
  CHECK(session.confirm(6));
  CHECK_FALSE(session.has_kept());
  CHECK(session.confirm(3));  // an old link's news
  CHECK_FALSE(session.confirm(7));
}

TEST_CASE("the end of an older link changes nothing") {
  LinkSession session(true);
  OneEnd first;
  OneEnd second;
  session.use(*first, 0);
  session.use(*second, 0);
  session.drop(*first);
  CHECK(session.link() == &*second);
}

TEST_CASE("each message is taken once, and the peer is told") {
  LinkSession session(true);
  CHECK_FALSE(session.owes());
  CHECK(session.take(0, 100));
  CHECK_FALSE(session.take(0, 100));
  CHECK(session.lacks_some(2));
  CHECK(session.owes());
  CHECK_FALSE(session.owes_many());
  CHECK(session.take(1, 1 << 20));
  CHECK(session.owes_many());
  CHECK(session.tell() == 2);
  CHECK_FALSE(session.owes());
}

TEST_CASE("a session that is given up keeps nothing") {
  LinkSession session(true);
  send(session);
  session.give_up();
  send(session);
  CHECK_FALSE(session.has_kept());
  CHECK_FALSE(session.needs_link());
}

}  // namespace
}  // namespace ronde::net
