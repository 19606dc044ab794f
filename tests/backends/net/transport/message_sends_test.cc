// The order of messages and words, and when they are done.
#include "backends/net/transport/message_sends.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

using SendStep = MessageSends::Step;

/// Steps until nothing may go out, or it is blocked; the last step.
SendStep send_all_steps(MessageSends& sends, Stream& stream) {
  SendStep step = SendStep::kMoved;
  while (sends.may_send(false) && step == SendStep::kMoved) step = sends.step(stream).value();
  return step;
}

/// The bytes that have arrived, at most `most`.
std::vector<std::byte> read_bytes(Stream& stream, std::size_t most) {
  std::vector<std::byte> bytes(most);
  const iovec piece{bytes.data(), bytes.size()};
  bytes.resize(stream.receive({&piece, 1}).value());
  return bytes;
}

std::uint64_t read_value(Stream& stream) { return WordReader().read(stream).value().value(); }

TEST_CASE("a message goes out behind its length, and words keep their place among messages") {
  StreamPair ends;
  MessageSends sends;
  const auto first = make_frame(0, 0, 5);
  const auto second = make_frame(0, 1, 0);
  CHECK(sends.post(first) == 0);
  sends.post_word(kBegin - 3);
  CHECK(sends.post(second) == 1);
  sends.begin_connection();
  CHECK(sends.busy());
  CHECK(send_all_steps(sends, ends.here) == SendStep::kMoved);
  CHECK(sends.empty());
  CHECK_FALSE(sends.busy());
  CHECK(read_value(ends.there) == kBegin);
  CHECK(read_value(ends.there) == first.size());
  CHECK(read_bytes(ends.there, first.size()) == first);
  CHECK(read_value(ends.there) == kBegin - 3);
  CHECK(read_value(ends.there) == 0);
}

TEST_CASE("a message is done once the socket has all of it, and words do not count") {
  StreamPair ends;
  MessageSends sends;
  const auto large = make_frame(0, 0, std::size_t{8} << 20);
  sends.post_word(kBegin - 3);
  sends.post(large);
  REQUIRE(send_all_steps(sends, ends.here) == SendStep::kBlocked);
  CHECK_FALSE(sends.sent(0));
  CHECK(read_value(ends.there) == kBegin - 3);
  CHECK(read_value(ends.there) == large.size());
  std::vector<std::byte> in;
  while (in.size() < large.size()) {
    const auto more = read_bytes(ends.there, large.size() - in.size());
    in.insert(in.end(), more.begin(), more.end());
    send_all_steps(sends, ends.here);
  }
  CHECK(in == large);
  CHECK(sends.sent(0));
  CHECK_FALSE(sends.sent(1));
}

TEST_CASE("while messages are held back, words before them may go out") {
  StreamPair ends;
  MessageSends sends;
  sends.post_word(kBegin - 3);
  sends.post({});
  REQUIRE(sends.may_send(/*words_only=*/true));
  REQUIRE(sends.step(ends.here).ok());
  CHECK_FALSE(sends.may_send(/*words_only=*/true));
  CHECK(sends.may_send(/*words_only=*/false));
}

TEST_CASE("the last word of a connection is told apart") {
  StreamPair ends;
  MessageSends sends;
  sends.post_word(kBegin - 3, /*closes=*/true);
  CHECK(sends.step(ends.here).value() == SendStep::kClosed);
  CHECK(sends.empty());
}

TEST_CASE("words of a connection that has ended are dropped; messages wait for the next one") {
  StreamPair ends;
  MessageSends sends;
  sends.post_word(kBegin - 3);
  sends.post({});
  sends.post_word(kBegin - 4);
  sends.drop_words();
  sends.begin_connection();
  CHECK(send_all_steps(sends, ends.here) == SendStep::kMoved);
  CHECK(sends.sent(0));
  CHECK(read_value(ends.there) == kBegin);
  CHECK(read_value(ends.there) == 0);
  CHECK(read_bytes(ends.there, 8).empty());
}

}  // namespace
}  // namespace ronde::net
