// Connections that break and are opened again, over a relay that resets them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <ctime>
#include <functional>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/data/relay.h"
#include "tests/backends/net/data/relayed_pair.h"
#include "tests/backends/net/data/tcp_ranks.h"
#include "tests/support/run_ranks.h"

namespace ronde::net {
namespace {

using std::chrono::milliseconds;

constexpr Wires kHealingWires[] = {Wires::kHealing, Wires::kHealingSealed};

/// Two ranks, and a relay before each.
struct Cuttable : RelayedPair {
  explicit Cuttable(Wires wires, TcpRankOptions the_options = {})
      : RelayedPair(wires, std::move(the_options)) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      relays[rank].emplace(listeners.addresses()[rank].front());
      listeners.put_address(static_cast<int>(rank), relays[rank]->address());
    }
  }
  /// The relay before rank 0, which all connections with data pass.
  [[nodiscard]] Relay& relay() { return *relays[0]; }
  void reset() {
    for (auto& each : relays) each->reset();
  }
  void set_down(bool on) {
    for (auto& each : relays) each->set_down(on);
  }
};

Status send_to(Transport& transport, int to, std::span<const std::byte> data, AbortToken& abort) {
  const auto id = transport.send(to, data);
  return id.ok() ? transport.wait(*id, abort) : id.status();
}

Status receive_from(Transport& transport, int from, std::span<std::byte> data, AbortToken& abort) {
  const auto id = transport.recv(from, data);
  return id.ok() ? transport.wait(*id, abort) : id.status();
}

/// Swaps frames; true if the other's arrived as it was. The sent bytes are overwritten at once.
bool swap_frames(Transport& transport, std::size_t number, std::size_t bytes, AbortToken& abort) {
  const int rank = transport.rank();
  auto out = make_frame(rank, number, bytes);
  std::vector<std::byte> in(bytes);
  const auto sent = transport.send(1 - rank, out);
  const auto received = transport.recv(1 - rank, in);
  if (!sent.ok() || !transport.wait(*sent, abort).ok()) return false;
  std::fill(out.begin(), out.end(), std::byte{0xee});
  return received.ok() && transport.wait(*received, abort).ok() &&
         in == make_frame(1 - rank, number, bytes);
}

TEST_CASE("transfers go on over resets, again and again, wherever these cut") {
  for (const Wires wires : kHealingWires) {
    Cuttable ranks(wires);
    std::mt19937 random(7);
    // Within greetings and headers, within chunks, and after many of them.
    ranks.relay().reset_after([&] {
      const std::size_t most = random() % 2 == 0 ? 3000 : 8'000'000;
      return 1 + random() % most;
    });
    ranks.run([&](Transport& transport, AbortToken& abort) {
      for (const std::size_t bytes : {0UL, 17UL, 300'000UL, 40'000'000UL, 1UL, 5'000'000UL}) {
        CHECK(swap_frames(transport, bytes, bytes, abort));
      }
    });
    CHECK(ranks.relay().connections() > 5);
  }
}

TEST_CASE("many small messages in flight survive resets, each once") {
  Cuttable ranks(Wires::kHealing);
  std::mt19937 random(3);
  ranks.relay().reset_after([&] { return 1000 + random() % 40'000; });
  ranks.run([&](Transport& transport, AbortToken& abort) {
    constexpr std::size_t kMessages = 5000;
    std::vector<std::uint32_t> out(kMessages);
    std::vector<std::uint32_t> in(kMessages);
    std::vector<TransferId> ids;
    for (std::size_t i = 0; i < kMessages; ++i) {
      out[i] = static_cast<std::uint32_t>(i * 3 + 1);
      ids.push_back(
          transport.send(1 - transport.rank(), std::as_bytes(std::span(&out[i], 1))).value());
      ids.push_back(
          transport.recv(1 - transport.rank(), std::as_writable_bytes(std::span(&in[i], 1)))
              .value());
    }
    for (const TransferId id : ids) REQUIRE(transport.wait(id, abort).ok());
    CHECK(in == out);
  });
}

TEST_CASE("transfers wait for an outage of a second and go on") {
  for (const Wires wires : kHealingWires) {
    Cuttable ranks(wires);
    ranks.run([&](Transport& transport, AbortToken& abort) {
      CHECK(swap_frames(transport, 1, 1000, abort));
      std::thread cutter;
      if (transport.rank() == 0) {
        ranks.set_down(true);
        cutter = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::seconds(1));
          ranks.set_down(false);
        });
      }
      CHECK(swap_frames(transport, 2, 20'000'000, abort));
      if (cutter.joinable()) cutter.join();
    });
  }
}

TEST_CASE("a rank that computes sends again what its peer lacks") {
  for (const int computes : {0, 1}) {
    CAPTURE(computes);
    Cuttable ranks(Wires::kHealing);
    std::promise<void> lost;
    std::promise<void> received;
    std::barrier<> both(2);
    ranks.run([&](Transport& transport, AbortToken& abort) {
      CHECK(swap_frames(transport, 1, 1000, abort));
      both.arrive_and_wait();
      std::vector<std::byte> data(100'000);
      if (transport.rank() == computes) {
        ranks.relay().set_swallowing(true);
        auto out = make_frame(computes, 5, data.size());
        CHECK(send_to(transport, 1 - computes, out, abort).ok());
        std::fill(out.begin(), out.end(), std::byte{1});
        lost.set_value();
        received.get_future().wait();  // without a call
        return;
      }
      lost.get_future().wait();
      std::this_thread::sleep_for(milliseconds(50));  // the relay has read it
      ranks.relay().reset();
      ranks.relay().set_swallowing(false);
      CHECK(receive_from(transport, computes, data, abort).ok());
      CHECK(data == make_frame(computes, 5, data.size()));
      received.set_value();
    });
  }
}

TEST_CASE("connections that break while nobody uses them are there when they are needed") {
  Cuttable ranks(Wires::kHealing);
  std::barrier<> both(2);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    for (std::size_t turn = 0; turn < 3; ++turn) {
      CHECK(swap_frames(transport, turn, 5000, abort));
      both.arrive_and_wait();
      if (transport.rank() == 0) ranks.reset();
      both.arrive_and_wait();
    }
  });
}

TEST_CASE("a rank that sends much before it receives does not block itself") {
  constexpr std::size_t kBytes = 30'000'000;
  Cuttable ranks(Wires::kHealing);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    const int other = 1 - transport.rank();
    const auto out = make_frame(transport.rank(), 9, kBytes);
    std::vector<std::byte> in(kBytes);
    if (transport.rank() == 0) {
      CHECK(send_to(transport, other, out, abort).ok());
      CHECK(receive_from(transport, other, in, abort).ok());
    } else {
      const TransferId sent = transport.send(other, out).value();
      CHECK(receive_from(transport, other, in, abort).ok());
      CHECK(transport.wait(sent, abort).ok());
    }
    CHECK(in == make_frame(other, 9, kBytes));
  });
}

TEST_CASE("an outage that lasts too long is an error that names both ends and the seconds") {
  Cuttable ranks(Wires::kHealing, {.reconnect_limit = milliseconds(1500)});
  ranks.run([&](Transport& transport, AbortToken& abort) {
    CHECK(swap_frames(transport, 1, 1000, abort));
    const int other = 1 - transport.rank();
    if (transport.rank() == 0) ranks.set_down(true);
    const TimePoint began = now();
    std::byte byte{};
    const Status status = receive_from(transport, other, {&byte, 1}, abort);
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.failed_rank()->rank == other);
    CHECK(status.message().find(fmt::format("rank {} (pid ", other)) == 0);
    CHECK(status.message().find(fmt::format("with rank {} (pid ", transport.rank())) !=
          std::string::npos);
    CHECK(status.message().find("for 1.5 s (RONDE_RECONNECT_SECONDS)") != std::string::npos);
    CHECK(now() - began >= milliseconds(1400));
    CHECK(now() - began < std::chrono::seconds(10));
  });
}

TEST_CASE("an abort ends the wait in an outage at once") {
  Cuttable ranks(Wires::kHealing);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    CHECK(swap_frames(transport, 1, 1000, abort));
    if (transport.rank() == 0) {
      ranks.set_down(true);
      abort.abort({Code::kRankFailure, "rank 7 died"});
    }
    std::byte byte{};
    const Status status = receive_from(transport, 1 - transport.rank(), {&byte, 1}, abort);
    CHECK(status.message() == "rank 7 died");
  });
}

TEST_CASE("a record that was changed is final") {
  Cuttable ranks(Wires::kHealingSealed);
  std::barrier<> both(2);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    CHECK(swap_frames(transport, 1, 1000, abort));
    if (transport.rank() == 0) ranks.relay().flip_after(50'000);
    both.arrive_and_wait();
    if (transport.rank() == 0) {
      std::vector<std::byte> data(200'000);
      const Status status = receive_from(transport, 1, data, abort);
      CHECK(status.code() == Code::kRankFailure);
      CHECK(status.message().find("not as it was sent") != std::string::npos);
    } else {
      const auto out = make_frame(1, 2, 200'000);
      (void)send_to(transport, 0, out, abort);
      std::byte byte{};
      CHECK(receive_from(transport, 0, {&byte, 1}, abort).code() == Code::kRankFailure);
    }
  });
}

/// CPU time of this process, in milliseconds.
long cpu_ms() { return static_cast<long>(std::clock() * 1000 / CLOCKS_PER_SEC); }

TEST_CASE("links that nobody uses cost no processor time") {
  Cuttable ranks(Wires::kHealing);
  std::barrier<> both(2);
  ranks.run([&](Transport& transport, AbortToken& abort) {
    CHECK(swap_frames(transport, 1, 1'000'000, abort));
    both.arrive_and_wait();
    if (transport.rank() == 0) {
      std::this_thread::sleep_for(milliseconds(500));  // callers drove until now
      const long before = cpu_ms();
      std::this_thread::sleep_for(std::chrono::seconds(1));
      CHECK(cpu_ms() - before < 20);
    }
    both.arrive_and_wait();
  });
}

}  // namespace
}  // namespace ronde::net
