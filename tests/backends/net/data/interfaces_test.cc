// Two pretended network interfaces, both on the loopback interface, with a relay before each.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
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

constexpr std::size_t kTotal = 40'000'000;

/// Two ranks. Rank 1 dials, so all their data passes the relays.
struct Interfaces : RelayedPair {
  explicit Interfaces(Wires wires, TcpRankOptions the_options = {})
      : RelayedPair(wires, std::move(the_options)) {
    for (std::size_t interface = 0; interface < relays.size(); ++interface) put_relay(interface);
  }
};

/// Ok if the other rank's frame arrived as it was. The sent bytes are overwritten at once.
Status exchange_frames(Transport& transport, std::size_t number, std::size_t bytes,
                       AbortToken& abort) {
  const int rank = transport.rank();
  auto out = make_frame(rank, number, bytes);
  std::vector<std::byte> in(bytes);
  RONDE_ASSIGN_OR_RETURN(const TransferId sent, transport.send(1 - rank, out));
  RONDE_ASSIGN_OR_RETURN(const TransferId received, transport.recv(1 - rank, in));
  RONDE_RETURN_IF_ERROR(transport.wait(sent, abort));
  std::fill(out.begin(), out.end(), std::byte{0xee});
  RONDE_RETURN_IF_ERROR(transport.wait(received, abort));
  if (in == make_frame(1 - rank, number, bytes)) return {};
  return {Code::kInternal, "the frame is another one"};
}

/// Exchanges frames until `enough`, as rank 0 sees it for both, for 20 s at most.
void exchange_until(const std::function<bool()>& enough, Transport& transport, AbortToken& abort) {
  const bool decides = transport.rank() == 0;
  const TimePoint limit = now() + std::chrono::seconds(20);
  for (std::size_t number = 0;; ++number) {
    std::byte again{decides && !enough() && now() < limit};
    CHECK(exchange_frames(transport, number, 1'000'000, abort).message() == "");
    std::byte theirs{};
    const auto sent = transport.send(1 - transport.rank(), {&again, 1});
    const auto got = transport.recv(1 - transport.rank(), {&theirs, 1});
    REQUIRE(transport.wait(sent.value(), abort).ok());
    REQUIRE(transport.wait(got.value(), abort).ok());
    if ((decides ? again : theirs) == std::byte{0}) return;
  }
}

TEST_CASE("interfaces: both carry a good part of what is sent, of odd sizes and none") {
  for (const Wires wires : {Wires::kTwoInterfaces, Wires::kTwoInterfacesHealing}) {
    Interfaces interfaces(wires);
    const auto carries_enough = [](const auto& relay) { return relay->bytes() > 2 * kTotal / 20; };
    interfaces.run([&](Transport& transport, AbortToken& abort) {
      for (const std::size_t bytes : {0UL, 1UL, 65'537UL, kTotal, 3UL}) {
        CHECK(exchange_frames(transport, bytes, bytes, abort).message() == "");
      }
      // How much each carries of one message depends on when the threads of the relays run.
      exchange_until([&] { return std::ranges::all_of(interfaces.relays, carries_enough); },
                     transport, abort);
    });
    for (const auto& relay : interfaces.relays) CHECK(carries_enough(relay));
  }
}

TEST_CASE("interfaces: one that dies is left out, and the other carries its share") {
  Interfaces interfaces(Wires::kTwoInterfacesHealing);
  interfaces.run([&](Transport& transport, AbortToken& abort) {
    CHECK(exchange_frames(transport, 1, 1'000'000, abort).ok());
    std::thread cutter;
    std::atomic<bool> over{false};
    if (transport.rank() == 0) {
      cutter = std::thread([&] {
        while (interfaces.relays[1]->bytes() < kTotal / 10 && !over) std::this_thread::yield();
        interfaces.relays[1]->set_down(true);
      });
    }
    CHECK(exchange_frames(transport, 2, kTotal, abort).ok());
    over = true;
    if (cutter.joinable()) cutter.join();
    CHECK(exchange_frames(transport, 3, kTotal, abort).ok());
  });
  CHECK(interfaces.relays[0]->bytes() > interfaces.relays[1]->bytes());
}

TEST_CASE("interfaces: one that comes back is used again") {
  Interfaces interfaces(Wires::kTwoInterfacesHealing);
  std::size_t before = 0;
  interfaces.run([&](Transport& transport, AbortToken& abort) {
    CHECK(exchange_frames(transport, 1, 1'000'000, abort).ok());
    if (transport.rank() == 0) interfaces.relays[1]->set_down(true);
    CHECK(exchange_frames(transport, 2, 5'000'000, abort).ok());
    if (transport.rank() == 0) {
      before = interfaces.relays[1]->bytes();
      interfaces.relays[1]->set_down(false);
    }
    exchange_until([&] { return interfaces.relays[1]->bytes() >= before + 5'000'000; }, transport,
                   abort);
  });
  CHECK(interfaces.relays[1]->bytes() >= before + 5'000'000);
}

TEST_CASE("interfaces: nothing is lost or doubled over resets of both") {
  Interfaces interfaces(Wires::kTwoInterfacesHealing);
  std::mt19937 random(5);
  for (auto& relay : interfaces.relays) {
    relay->reset_after([&, seed = random()]() mutable {
      std::mt19937 draw(seed++);
      return 1 + draw() % 4'000'000;
    });
  }
  interfaces.run([&](Transport& transport, AbortToken& abort) {
    for (std::size_t number = 0; number < 40; ++number) {
      CHECK(exchange_frames(transport, number, 1'000'000 + number, abort).ok());
    }
  });
  for (const auto& relay : interfaces.relays) CHECK(relay->connections() > 3);
}

TEST_CASE("interfaces: without healing one that dies ends the transfers, by its name") {
  Interfaces interfaces(Wires::kTwoInterfaces, {.link_timeout = std::chrono::milliseconds(700)});
  interfaces.run([&](Transport& transport, AbortToken& abort) {
    // An interface that never connects has the limit of a first connection instead.
    exchange_until([&] { return interfaces.relays[1]->bytes() > 1'000'000; }, transport, abort);
    if (transport.rank() == 0) interfaces.relays[1]->set_down(true);
    Status status;
    const TimePoint limit = now() + std::chrono::seconds(20);
    for (std::size_t number = 2; status.ok() && now() < limit; ++number) {
      status = exchange_frames(transport, number, 100'000, abort);
    }
    CHECK(status.code() == Code::kRankFailure);
    // The rank that notices first ends the connections with the other one.
    const bool named = status.message().find("over 127.0.0.2") != std::string::npos;
    const bool left = status.message().find("it has left the group") != std::string::npos;
    CHECK_MESSAGE((named || left), status.message());
  });
}

}  // namespace
}  // namespace ronde::net
