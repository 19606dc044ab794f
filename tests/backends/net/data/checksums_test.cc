// Connections with checksums, over a relay that flips bits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/data/relayed_pair.h"

namespace ronde::net {
namespace {

constexpr std::size_t kSpoilt = 400'000;

/// Two ranks, and a relay before rank 0, which all data from rank 1 passes.
struct Spoilt : RelayedPair {
  explicit Spoilt(Wires wires, TcpRankOptions the_options = {})
      : RelayedPair(wires, std::move(the_options)) {
    put_relay();
  }
  [[nodiscard]] Relay& relay() { return *relays[0]; }
};

Status send_frame(Transport& transport, std::size_t number, std::size_t bytes, AbortToken& abort) {
  const auto out = make_frame(transport.rank(), number, bytes);
  const auto id = transport.send(1 - transport.rank(), out);
  return id.ok() ? transport.wait(*id, abort) : id.status();
}

/// True if the frame came as it was sent.
Result<bool> receive_frame(Transport& transport, std::size_t number, std::size_t bytes,
                           AbortToken& abort) {
  std::vector<std::byte> in(bytes);
  RONDE_ASSIGN_OR_RETURN(const auto id, transport.recv(1 - transport.rank(), in));
  RONDE_RETURN_IF_ERROR(transport.wait(id, abort));
  return in == make_frame(1 - transport.rank(), number, bytes);
}

/// Frames from rank 1 to rank 0, and a word back after each. One of them has a flipped bit.
void exchange_spoilt(Spoilt& ranks, std::size_t frames, std::mt19937& random) {
  ranks.run([&](Transport& transport, AbortToken& abort) {
    for (std::size_t i = 0; i < frames; ++i) {
      if (transport.rank() == 1) {
        REQUIRE(send_frame(transport, i, kSpoilt, abort).ok());
        REQUIRE(receive_frame(transport, i, 1, abort).ok());
        continue;
      }
      if (i > 0) ranks.relay().flip_after(1 + random() % kSpoilt);
      const auto came = receive_frame(transport, i, kSpoilt, abort);
      REQUIRE_MESSAGE(came.ok(), came.status().to_string());
      REQUIRE(*came);
      REQUIRE(send_frame(transport, i, 1, abort).ok());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // outages are reported meanwhile
  });
}

TEST_CASE("a flipped bit is found wherever it is, and what it hit is sent again") {
  const auto counts = std::make_shared<ConnectionCounts>();
  Spoilt ranks(Wires::kHealingChecked, {.counts = counts});
  std::mt19937 random(5);
  constexpr std::size_t kFrames = 60;
  exchange_spoilt(ranks, kFrames, random);
  // Some hit what both say as they meet again.
  const int flips = ranks.relay().flips();
  CHECK(flips > static_cast<int>(kFrames) / 2);
  CHECK(static_cast<int>(counts->corrupted.load()) >= flips * 3 / 4);
  CHECK(counts->healed.load() >= counts->corrupted.load());
}

TEST_CASE("without checksums flipped bits arrive") {
  Spoilt ranks(Wires::kHealing);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    if (transport.rank() == 1) {
      CHECK(send_frame(transport, 0, 1, abort).ok());
      CHECK(receive_frame(transport, 0, 1, abort).value());
      CHECK(send_frame(transport, 1, kSpoilt, abort).ok());
      return;
    }
    CHECK(receive_frame(transport, 0, 1, abort).value());
    ranks.relay().flip_after(kSpoilt / 2);
    CHECK(send_frame(transport, 0, 1, abort).ok());
    CHECK_FALSE(receive_frame(transport, 1, kSpoilt, abort).value());
  });
}

/// The error of rank 0 where that byte of a connection that does not heal has a flipped bit.
Status error_of_flip(std::size_t at) {
  Status error;
  Spoilt ranks(Wires::kChecked);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    if (transport.rank() == 1) {
      CHECK(send_frame(transport, 0, 1, abort).ok());
      CHECK(receive_frame(transport, 0, 1, abort).value());
      (void)send_frame(transport, 1, kSpoilt, abort);
      (void)receive_frame(transport, 1, 1, abort);
      return;
    }
    CHECK(receive_frame(transport, 0, 1, abort).value());
    ranks.relay().flip_after(at);
    CHECK(send_frame(transport, 0, 1, abort).ok());
    error = receive_frame(transport, 1, kSpoilt, abort).status();
    abort.abort(error);
  });
  return error;
}

TEST_CASE("where connections do not heal, the error names both ends and the bytes") {
  for (const std::size_t at :
       {100UL, 5'000UL, 200'000UL, 262'216UL, 262'300UL, 300'000UL, 399'000UL}) {
    const Status error = error_of_flip(at);
    CHECK(error.code() == Code::kCorrupted);
    CHECK(error.message().starts_with("the connection of rank 0 (pid "));
    CHECK(error.message().find(" with rank 1 (pid ") != std::string::npos);
    const std::string from = at <= 262'144 + 72
                                 ? "262144 bytes from byte 0 of a message of 400000"
                                 : "137856 bytes from byte 262144 of a message of 400000";
    CHECK_MESSAGE(error.message().find(from) != std::string::npos, error.message());
  }
}

TEST_CASE("a flipped bit of a header is found before anything is done with it") {
  for (std::size_t at = 1; at <= 72; at += 5) {
    const Status error = error_of_flip(at);
    CHECK(error.code() == Code::kCorrupted);
    CHECK_MESSAGE(error.message().find("header with a wrong checksum") != std::string::npos,
                  error.message());
  }
}

TEST_CASE("a path that spoils all long chunks ends the group after some tries") {
  Spoilt ranks(Wires::kHealingChecked);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    if (transport.rank() == 1) {
      CHECK(send_frame(transport, 0, 1, abort).ok());
      CHECK(receive_frame(transport, 0, 1, abort).value());
      (void)send_frame(transport, 1, 4 * kSpoilt, abort);
      (void)receive_frame(transport, 1, 1, abort);
      return;
    }
    CHECK(receive_frame(transport, 0, 1, abort).value());
    ranks.relay().set_spoiling(true);
    CHECK(send_frame(transport, 0, 1, abort).ok());
    const Status error = receive_frame(transport, 1, 4 * kSpoilt, abort).status();
    CHECK(error.code() == Code::kCorrupted);
    abort.abort(error);
  });
}

TEST_CASE("ten thousand healthy messages raise no alarm") {
  for (const Wires wires : {Wires::kChecked, Wires::kUnixChecked, Wires::kHealingChecked}) {
    with_transports(wires, 2, [](int rank, Transport& transport, AbortToken& abort) {
      std::mt19937 random(3);
      for (std::size_t i = 0; i < 5'000; ++i) {
        const std::size_t bytes = i % 100 == 0 ? random() % 600'000 : random() % 2'000;
        if (rank == 0) REQUIRE(send_frame(transport, i, bytes, abort).ok());
        REQUIRE(receive_frame(transport, i, bytes, abort).value());
        if (rank == 1) REQUIRE(send_frame(transport, i, bytes, abort).ok());
      }
    });
  }
}

}  // namespace
}  // namespace ronde::net
