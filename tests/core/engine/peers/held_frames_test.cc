#include "core/engine/peers/held_frames.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/engine/peers/frame.h"

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
