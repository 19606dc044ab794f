// Frames through a ring: wrap-around, frames larger than the ring, nonsense from the other side.
#include "backends/net/control/ring.h"

#include <doctest/doctest.h>

#include <random>
#include <thread>

#include "tests/backends/net/channel_peer.h"

namespace ronde::net {
namespace {

struct Ring {
  RingHeader header{};
  alignas(8) std::array<std::byte, 256> data{};
  RingSender sender{header, data};
  RingReceiver receiver{header, data};

  std::vector<std::vector<std::byte>> drain() {
    std::vector<std::vector<std::byte>> frames;
    const Status status = receiver.drain(
        [&](std::span<const std::byte> frame) { frames.emplace_back(frame.begin(), frame.end()); },
        room_made);
    CHECK(status.ok());
    return frames;
  }
  bool room_made = false;
};

/// The status of the receiver, and the frames it got, where a bit of the ring's bytes is flipped.
Status drain_flipped(std::span<const std::byte> frame, std::size_t bit, int& frames) {
  RingHeader header{};
  alignas(8) std::array<std::byte, 256> data{};
  RingSender sender{header, data, /*checksums=*/true};
  RingReceiver receiver{header, data};
  CHECK(sender.send(frame));
  data[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  bool room_made = false;
  return receiver.drain([&](std::span<const std::byte>) { ++frames; }, room_made);
}

TEST_CASE("with checksums any flipped bit of a frame is found, and nobody gets the frame") {
  const auto frame = make_frame(0, 1, 104);
  int frames = 0;
  for (std::size_t bit = 0; bit < 8 * (16 + frame.size()); ++bit) {
    CAPTURE(bit);
    CHECK(drain_flipped(frame, bit, frames).code() == Code::kCorrupted);
  }
  CHECK(frames == 0);
}

TEST_CASE("frames with checksums come out as they went in, also larger than the ring") {
  RingHeader header{};
  alignas(8) std::array<std::byte, 256> data{};
  RingSender sender{header, data, /*checksums=*/true};
  RingReceiver receiver{header, data};
  std::mt19937 random(1);
  for (std::size_t i = 0; i < 2000; ++i) {
    const auto frame = make_frame(0, i, random() % 700);
    std::vector<std::vector<std::byte>> out;
    bool room_made = false;
    sender.send(frame);
    for (int turn = 0; turn < 9; ++turn) {
      REQUIRE(receiver.drain([&](auto got) { out.emplace_back(got.begin(), got.end()); }, room_made)
                  .ok());
      sender.flush();
    }
    REQUIRE(out.size() == 1);
    REQUIRE(out[0] == frame);
  }
}

TEST_CASE("frames come out as they went in, round and round") {
  Ring ring;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < 2000; ++i) {
    const auto frame = make_frame(0, i, random() % 241);
    REQUIRE(ring.sender.send(frame));
    const auto out = ring.drain();
    REQUIRE(out.size() == 1);
    REQUIRE(out[0] == frame);
  }
}

TEST_CASE("a frame larger than the ring passes in pieces") {
  Ring ring;
  const auto large = make_frame(0, 1, 5000);
  const auto small = make_frame(0, 2, 3);
  CHECK(ring.sender.send(large));
  CHECK_FALSE(ring.sender.send(small));
  CHECK(ring.sender.blocked());
  std::vector<std::vector<std::byte>> frames;
  for (int i = 0; i < 100 && frames.size() < 2; ++i) {
    for (auto& frame : ring.drain()) frames.push_back(std::move(frame));
    ring.sender.flush();
  }
  REQUIRE(frames.size() == 2);
  CHECK(frames[0] == large);
  CHECK(frames[1] == small);
  CHECK_FALSE(ring.sender.blocked());
}

TEST_CASE("the receiver is told when the sender waits for room, once") {
  Ring ring;
  ring.sender.send(make_frame(0, 0, 1000));
  ring.drain();
  CHECK(ring.room_made);
  ring.drain();
  CHECK_FALSE(ring.room_made);
}

TEST_CASE("frames start where eight-byte words may start") {
  Ring ring;
  for (const std::size_t size : {1U, 7U, 8U, 9U, 100U}) {
    ring.sender.send(make_frame(0, 0, size));
    const Status status = ring.receiver.drain(
        [](std::span<const std::byte> frame) {
          CHECK(reinterpret_cast<std::uintptr_t>(frame.data()) % 8 == 0);
        },
        ring.room_made);
    CHECK(status.ok());
  }
}

TEST_CASE("a length over the limit is an error, and nothing is allocated for it") {
  Ring ring;
  ring.data[3] = std::byte{0xff};
  ring.header.tail.store(8);
  CHECK(ring.receiver.drain([](auto) {}, ring.room_made).code() == Code::kInternal);
}

TEST_CASE("positions that cannot be are an error") {
  Ring ring;
  ring.header.tail.store(257);
  CHECK(ring.receiver.drain([](auto) {}, ring.room_made).code() == Code::kInternal);
}

TEST_CASE("sender and receiver may run at the same time") {
  Ring ring;
  std::thread sender([&] {
    for (std::size_t i = 0; i < 3000; ++i) {
      ring.sender.send(make_frame(0, i, i % 600));
      while (ring.sender.blocked()) {
        ring.sender.flush();
        std::this_thread::yield();
      }
    }
  });
  std::size_t next = 0;
  bool right = true;
  while (next < 3000) {
    for (const auto& frame : ring.drain()) {
      right = right && frame == make_frame(0, next, next % 600);
      ++next;
    }
    std::this_thread::yield();
  }
  sender.join();
  CHECK(right);
}

}  // namespace
}  // namespace ronde::net
