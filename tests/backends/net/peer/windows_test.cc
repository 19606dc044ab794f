// The two halves of a link that heals, without connections: chunks get lost, come twice and late.
#include "backends/net/peer/windows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "tests/backends/net/channel_peer.h"

namespace ronde::net {
namespace {

constexpr std::size_t kWindow = 4096;

/// A chunk with bytes of its own, as on a wire.
struct Sent {
  ChunkHeader header;
  std::vector<std::byte> bytes;
};

Sent copy_of(const OutgoingChunk& chunk) {
  return {chunk.header, {chunk.bytes.begin(), chunk.bytes.end()}};
}

Status arrive(ReceiveWindow& receiver, const Sent& chunk) {
  RONDE_ASSIGN_OR_RETURN(const auto place, receiver.begin(chunk.header));
  if (place.empty()) return receiver.end(chunk.header, chunk.bytes);
  std::copy(chunk.bytes.begin(), chunk.bytes.end(), place.begin());
  return receiver.end(chunk.header, {});
}

bool acknowledge(SendWindow& sender, const ReceiveWindow& receiver) {
  return sender.acknowledge(receiver.received_below(), receiver.delivered_below());
}

TEST_CASE("messages arrive once and whole over losses, repetitions and any order") {
  std::mt19937 random(11);
  SendWindow sender(kWindow);
  ReceiveWindow receiver(kWindow);
  std::vector<std::vector<std::byte>> out;
  std::vector<std::vector<std::byte>> in(60);
  for (std::size_t i = 0; i < in.size(); ++i) {
    out.push_back(make_frame(1, i, random() % 3 == 0 ? random() % 9000 : random() % 40));
    in[i].resize(out[i].size());
    sender.post(out[i]);
  }
  std::size_t posted = 0;
  std::vector<Sent> wire;
  for (int turn = 0; turn < 100'000 && !receiver.received(in.size() - 1); ++turn) {
    if (posted < in.size() && random() % 4 == 0) receiver.post(in[posted++]);
    if (const auto chunk = sender.take()) {
      wire.push_back(copy_of(*chunk));
      sender.written(chunk->header.sequence);
    }
    std::shuffle(wire.begin(), wire.end(), random);
    if (!wire.empty()) REQUIRE(arrive(receiver, wire.back()).ok());  // it may come again
    if (!wire.empty() && random() % 2 == 0) wire.pop_back();
    if (random() % 8 == 0) REQUIRE(acknowledge(sender, receiver));
    if (random() % 64 == 0) {  // the connection is lost, and what it carried
      wire.clear();
      REQUIRE(acknowledge(sender, receiver));
      sender.lose();
    }
  }
  REQUIRE(receiver.received(in.size() - 1));
  CHECK(in == out);
  CHECK(sender.sent(in.size() - 1));
  CHECK(acknowledge(sender, receiver));
  CHECK_FALSE(sender.has_unconfirmed());
}

TEST_CASE("a full window holds further chunks back until the peer has delivered some") {
  SendWindow sender(kWindow);
  const auto data = make_frame(0, 0, 10 * kWindow);
  sender.post(data);
  std::size_t held = 0;
  std::uint64_t chunks = 0;
  while (const auto chunk = sender.take()) {
    held += chunk->bytes.size();
    ++chunks;
    sender.written(chunk->header.sequence);
  }
  CHECK(held <= kWindow);
  CHECK_FALSE(sender.sent(0));
  CHECK(sender.acknowledge(chunks, 0));
  CHECK_FALSE(sender.take().has_value());  // the peer holds them, but has no receive for them
  CHECK(sender.acknowledge(chunks, chunks));
  CHECK(sender.take().has_value());
}

TEST_CASE("many messages of few bytes fill a window too") {
  SendWindow sender(kWindow);
  for (int i = 0; i < 1000; ++i) sender.post({});
  std::size_t chunks = 0;
  while (sender.take()) ++chunks;
  CHECK(chunks == kWindow / kChunkCost);
}

TEST_CASE("what was sent may be overwritten, and is sent again as it was") {
  SendWindow sender(kWindow);
  auto data = make_frame(0, 3, 100);
  sender.post(data);
  const Sent first = copy_of(*sender.take());
  sender.written(0);
  CHECK(sender.sent(0));
  std::fill(data.begin(), data.end(), std::byte{0});
  sender.lose();
  const Sent again = copy_of(*sender.take());
  CHECK(again.bytes == first.bytes);
  CHECK(again.header.sequence == first.header.sequence);
}

TEST_CASE("of several connections, one that is lost gives its own chunks to the others") {
  SendWindow sender(kWindow, 10);
  const auto data = make_frame(0, 1, 60);
  sender.post(data);
  for (const std::size_t connection : {0UL, 1UL, 0UL, 1UL, 1UL}) {
    const auto chunk = sender.take(connection);
    REQUIRE(chunk->bytes.size() == 10);
    sender.written(chunk->header.sequence);
  }
  CHECK(sender.acknowledge(2, 2));
  sender.lose(1);
  CHECK(sender.take(0)->header.sequence == 3);
  CHECK(sender.take(0)->header.sequence == 4);
  CHECK(sender.take(0)->header.sequence == 5);  // the rest of the message
  sender.lose(1);                               // they are the other's now
  CHECK_FALSE(sender.has_waiting());
}

TEST_CASE("chunks beyond a late one cost the peer's window until it is there") {
  SendWindow sender(kWindow, 10);
  ReceiveWindow receiver(kWindow);
  const auto data = make_frame(0, 1, 30);
  std::vector<std::byte> in(data.size());
  sender.post(data);
  receiver.post(in);
  std::vector<Sent> sent;
  while (const auto chunk = sender.take()) sent.push_back(copy_of(*chunk));
  REQUIRE(sent.size() == 3);
  CHECK(arrive(receiver, sent[1]).ok());
  CHECK(arrive(receiver, sent[2]).ok());
  CHECK(receiver.delivered_below() == 0);
  CHECK(receiver.delivered_cost() == 0);
  CHECK(arrive(receiver, sent[0]).ok());
  CHECK(receiver.delivered_below() == 3);
  CHECK(receiver.delivered_cost() == 3 * (10 + kChunkCost));
}

TEST_CASE("chunks that cannot be are refused") {
  ReceiveWindow receiver(kWindow);
  std::vector<std::byte> data(10);
  receiver.post(data);
  const auto header = [](std::uint64_t sequence, std::uint32_t length, std::uint64_t offset,
                         std::uint64_t total) {
    return ChunkHeader{.kind = FrameKind::kData,
                       .length = length,
                       .sequence = sequence,
                       .offset = offset,
                       .total = total};
  };
  CHECK(receiver.begin(header(0, 5, 8, 10)).status().code() == Code::kInternal);
  CHECK(receiver.begin(header(0, 1, ~std::uint64_t{0}, 10)).status().code() == Code::kInternal);
  CHECK(receiver.begin(header(0, 9, 0, 9)).status().message().find("9 bytes where 10") !=
        std::string::npos);
  CHECK(receiver.begin(header(0, 10, 0, 10)).ok());
  SendWindow sender(kWindow);
  CHECK_FALSE(sender.acknowledge(1, 0));
  CHECK_FALSE(sender.acknowledge(0, 1));
}

TEST_CASE("without a window messages go once, in order and as they are") {
  SendWindow sender(0, 10);
  ReceiveWindow receiver(0);
  const auto data = make_frame(0, 1, 1000);
  CHECK(sender.post(data) == 0);
  CHECK(sender.post({}) == 1);
  const auto first = sender.take();
  CHECK(first->bytes.data() == data.data());
  CHECK(first->bytes.size() == data.size());
  CHECK_FALSE(sender.sent(0));
  sender.written(first->header.sequence);
  CHECK(sender.sent(0));
  sender.lose();
  CHECK(sender.take()->header.sequence == 1);
  CHECK_FALSE(sender.take());
  CHECK_FALSE(sender.has_unconfirmed());
  CHECK_FALSE(receiver.takes());
  std::vector<std::byte> in(data.size());
  receiver.post(in);
  receiver.post({});
  REQUIRE(receiver.takes());
  CHECK(receiver.begin({.kind = FrameKind::kData, .sequence = 1, .message = 1}).status().code() ==
        Code::kInternal);
  CHECK(receiver.begin(first->header)->data() == in.data());
  CHECK(receiver.end(first->header, {}).ok());
  CHECK(receiver.received(0));
  CHECK_FALSE(receiver.received(1));
  CHECK(receiver.begin(first->header).status().code() == Code::kInternal);
}

TEST_CASE("messages without receives are taken whole and in order, whatever is their kind") {
  for (const std::size_t window : {std::size_t{0}, kWindow}) {
    constexpr std::size_t kMost = 3000;
    SendWindow sender(window, 1000);
    ReceiveWindow receiver(window, kMost);
    CHECK(receiver.takes());
    const auto first = make_frame(0, 0, kMost);
    const auto second = make_frame(0, 1, 7);
    sender.post(first);
    sender.post(second, FrameKind::kLost);
    sender.post_goodbye(FrameKind::kClose);
    while (const auto chunk = sender.take()) {
      CHECK_FALSE(receiver.take());
      REQUIRE(arrive(receiver, copy_of(*chunk)).ok());
      sender.written(chunk->header.sequence);
      if (receiver.received(0) && !receiver.received(1)) CHECK(receiver.take()->bytes == first);
      if (receiver.received(1) && !receiver.peer_left()) {
        const auto message = receiver.take();
        CHECK(message->kind == FrameKind::kLost);
        CHECK(message->bytes == second);
      }
    }
    CHECK(receiver.peer_left());
    CHECK(receiver.goodbye() == FrameKind::kClose);
    CHECK_FALSE(receiver.take());
  }
}

TEST_CASE("messages without receives that are too long, or too early, are refused") {
  for (const std::size_t window : {std::size_t{0}, kWindow}) {
    ReceiveWindow receiver(window, 100);
    const auto begin = [&](std::uint64_t message, std::size_t bytes) {
      return receiver
          .begin({.kind = FrameKind::kData, .length = bytes, .message = message, .total = bytes})
          .status();
    };
    CHECK(begin(0, 101).code() == Code::kInternal);
    CHECK(begin(1, 100).code() == Code::kInternal);
    CHECK(begin(0, 100).ok());
  }
}

TEST_CASE("a goodbye counts once all before it has arrived") {
  SendWindow sender(kWindow);
  ReceiveWindow receiver(kWindow);
  const auto data = make_frame(0, 0, 10);
  sender.post(data);
  sender.post_goodbye();
  const Sent message = copy_of(*sender.take());
  const Sent goodbye = copy_of(*sender.take());
  CHECK(goodbye.header.kind == FrameKind::kLast);
  CHECK(arrive(receiver, goodbye).ok());
  CHECK_FALSE(receiver.peer_left());
  CHECK(arrive(receiver, message).ok());
  CHECK(receiver.peer_left());
  std::vector<std::byte> in(10);
  receiver.post(in);
  CHECK(in == data);
  CHECK(receiver.received(0));
}

}  // namespace
}  // namespace ronde::net
