#include "core/engine/frames/frame.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "tests/core/engine/engine_parts.h"

namespace ronde {
namespace {

/// Notes what it is given.
struct NotingSink final : ChannelSink {
  void on_frame(int from, std::span<const std::byte> frame) override {
    told.push_back("frame of " + std::to_string(from) + ", " + std::to_string(frame.size()));
  }
  void on_peer_lost(int rank, const Status& reason) override {
    told.push_back("lost " + std::to_string(rank) + ": " + reason.message());
  }
  void on_peer_left(int rank, const Status& reason) override {
    told.push_back("left " + std::to_string(rank) + ": " + reason.message());
  }
  std::vector<std::string> told;
};

std::vector<std::byte> frame_of(EnginePart kind, std::span<const std::byte> payload) {
  std::vector<std::byte> buffer;
  const auto frame = make_frame(buffer, {.kind = kind}, payload);
  return {frame.begin(), frame.end()};
}

}  // namespace

TEST_CASE("frame: header and payload come back") {
  std::vector<std::byte> buffer;
  FrameHeader header;
  header.kind = EnginePart::kExchange;
  header.id = 77;
  const auto frame = make_frame(buffer, header, as_bytes("abc"));
  const auto read = read_header(frame);
  REQUIRE(read.has_value());
  CHECK(read->kind == EnginePart::kExchange);
  CHECK(read->id == 77);
  CHECK(as_text(frame.subspan(sizeof(FrameHeader))) == "abc");
}

TEST_CASE("frame: short frames and unknown kinds are refused") {
  std::vector<std::byte> buffer;
  FrameHeader header;
  header.kind = static_cast<EnginePart>(99);
  CHECK_FALSE(read_header(make_frame(buffer, header, {})).has_value());
  header.kind = EnginePart::kMessage;
  const auto frame = make_frame(buffer, header, {});
  CHECK_FALSE(read_header(frame.first(frame.size() - 1)).has_value());
}

TEST_CASE("failure frame: code, message and rank come back") {
  const Status sent = Status(Code::kRankFailure, "rank 3 died").about({3, "node1", 42});
  Status received;
  REQUIRE(read_failure(make_failure(sent), received).ok());
  CHECK(received.code() == Code::kRankFailure);
  CHECK(received.message() == "rank 3 died");
  CHECK(received.failed_rank()->rank == 3);
  CHECK(received.failed_rank()->host == "node1");
  CHECK(received.failed_rank()->pid == 42);
  REQUIRE(read_failure(make_failure(Status(Code::kInternal, "x")), received).ok());
  CHECK_FALSE(received.failed_rank().has_value());
}

TEST_CASE("failure frame: truncated and senseless payloads are refused") {
  const auto good = make_failure(Status(Code::kInternal, "x").about({1, "host", 2}));
  Status received;
  for (std::size_t length = 0; length < 20; ++length) {
    CHECK_FALSE(read_failure(std::span(good).first(length), received).ok());
  }
  auto bad = good;
  bad[0] = std::byte{99};
  CHECK_FALSE(read_failure(bad, received).ok());
}

TEST_CASE("FrameSender: frames go out in the order added, with the header of their part") {
  test::EngineParts parts(0, 3);
  parts.sender.add(1, {std::byte{7}});
  parts.sender.add(2, {});
  parts.sender.send(EnginePart::kExchange, 42);
  REQUIRE(parts.channel.sent.size() == 2);
  CHECK(parts.channel.sent[0].rank == 1);
  CHECK(parts.channel.sent[0].bytes ==
        test::frame_of(EnginePart::kExchange, 42, std::vector{std::byte{7}}));
  CHECK(parts.channel.sent[1].rank == 2);
  parts.sender.send(EnginePart::kExchange, 42);
  CHECK(parts.channel.sent.size() == 2);
}

TEST_CASE("FrameSender: an error of the channel breaks the job, but not that a rank is gone") {
  test::EngineParts parts;
  parts.channel.send_status = Status(Code::kRankFailure, "rank 1 died");
  parts.sender.add(1, {});
  parts.sender.send(EnginePart::kClock, 0);
  CHECK_FALSE(parts.abort->aborted());
  parts.channel.send_status = Status(Code::kInvalidArgument, "too long");
  parts.sender.add(1, {});
  parts.sender.send(EnginePart::kClock, 0);
  CHECK(parts.abort->status().message() == "too long");
}

TEST_CASE("HeldFrames: all that came is given once, in order") {
  AbortToken abort;
  HeldFrames held(abort);
  NotingSink sink;
  CHECK_FALSE(held.deliver(sink));
  held.on_frame(1, frame_of(EnginePart::kMessage, std::vector<std::byte>(4)));
  held.on_peer_left(2, Status(Code::kRankFailure, "gone home"));
  held.on_peer_lost(3, Status(Code::kRankFailure, "dead"));
  held.on_frame(1, {});
  CHECK(held.deliver(sink));
  CHECK(sink.told == std::vector<std::string>{"frame of 1, 20", "left 2: gone home", "lost 3: dead",
                                              "frame of 1, 0"});
  CHECK_FALSE(held.deliver(sink));
  CHECK_FALSE(abort.aborted());
}

TEST_CASE("HeldFrames: a failure ends waits at once, and is given later like the rest") {
  AbortToken abort;
  HeldFrames held(abort);
  const auto failure = make_failure(Status(Code::kUnavailable, "the data plane broke"));
  held.on_frame(1, frame_of(EnginePart::kFailure, failure));
  CHECK(abort.status().message() == "the data plane broke");
  NotingSink sink;
  CHECK(held.deliver(sink));
  CHECK(sink.told.size() == 1);
}

}  // namespace ronde
