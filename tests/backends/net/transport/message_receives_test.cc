// Messages and words as they arrive: in any pieces, before they are awaited, or wrong.
#include "backends/net/transport/message_receives.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

using ReceiveStep = MessageReceives::Step;

void write_bytes(Stream& stream, std::span<const std::byte> bytes) {
  REQUIRE(send_all(stream, bytes, now() + std::chrono::seconds(20)).ok());
}

void write_value(Stream& stream, std::uint64_t value) { write_bytes(stream, peer_word(value)); }

TEST_CASE("a message is whole however its bytes arrive") {
  StreamPair ends;
  MessageReceives receives;
  const auto out = make_frame(0, 0, 20);
  std::vector<std::byte> in(out.size());
  CHECK(receives.post(in) == 0);
  const PeerWord length = peer_word(out.size());
  for (std::size_t i = 0; i < length.size(); ++i) {
    CHECK(receives.step(ends.here).value() == ReceiveStep::kBlocked);
    CHECK(receives.in_word() == (i > 0));
    write_bytes(ends.there, {&length[i], 1});
  }
  for (const std::byte& byte : out) {
    CHECK(receives.step(ends.here).value() == ReceiveStep::kBlocked);
    CHECK(receives.in_message());
    CHECK_FALSE(receives.received(0));
    write_bytes(ends.there, {&byte, 1});
  }
  CHECK(receives.step(ends.here).value() == ReceiveStep::kMessage);
  CHECK(receives.received(0));
  CHECK_FALSE(receives.in_message());
  CHECK_FALSE(receives.busy());
  CHECK(in == out);
}

TEST_CASE("a word between messages is no message") {
  StreamPair ends;
  MessageReceives receives;
  std::byte in{};
  receives.post({});
  receives.post({&in, 1});
  write_value(ends.there, 0);
  write_value(ends.there, kLargestLength + 2);
  write_value(ends.there, 1);
  write_bytes(ends.there, make_frame(0, 3, 1));
  CHECK(receives.step(ends.here).value() == ReceiveStep::kMessage);
  CHECK(receives.step(ends.here).value() == ReceiveStep::kWord);
  CHECK(receives.word() == kLargestLength + 2);
  CHECK(receives.step(ends.here).value() == ReceiveStep::kMessage);
  CHECK(receives.received(1));
  CHECK(in == make_frame(0, 3, 1).front());
}

TEST_CASE("a message that nobody awaits yet stays in the socket behind its length") {
  StreamPair ends;
  MessageReceives receives;
  write_value(ends.there, 4);
  write_bytes(ends.there, make_frame(0, 0, 4));
  CHECK(receives.step(ends.here).value() == ReceiveStep::kMoved);
  CHECK(receives.in_message());
  std::vector<std::byte> in(4);
  receives.post(in);
  CHECK(receives.step(ends.here).value() == ReceiveStep::kMessage);
  CHECK(in == make_frame(0, 0, 4));
}

TEST_CASE("another length than the awaited one is an error, and none of the data is taken") {
  StreamPair ends;
  MessageReceives receives;
  std::vector<std::byte> in(5);
  receives.post(in);
  write_value(ends.there, 3);
  write_bytes(ends.there, make_frame(0, 1, 3));
  const Status status = receives.step(ends.here).status();
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message() == "sent 3 bytes where 5 were expected");
  CHECK(in == std::vector<std::byte>(5));
}

TEST_CASE("part of a word does not run into the next connection") {
  MessageReceives receives;
  {
    StreamPair ends;
    write_bytes(ends.there, make_frame(0, 1, 5));
    CHECK(receives.step(ends.here).value() == ReceiveStep::kBlocked);
    CHECK(receives.in_word());
  }
  receives.drop_word();
  CHECK_FALSE(receives.in_word());
  StreamPair next;
  write_value(next.there, kBegin - 1);
  CHECK(receives.step(next.here).value() == ReceiveStep::kWord);
  CHECK(receives.word() == kBegin - 1);
}

}  // namespace
}  // namespace ronde::net
