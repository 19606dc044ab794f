// Links that break and are made again, over relays that break them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "backends/net/control/tcp_links.h"
#include "core/base/mutex.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/data/relay.h"

namespace ronde::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kReconnectLimit{20};
constexpr seconds kTestLimit{60};

Topology two_hosts(int rank) { return {rank, {{0, "node0", 1}, {1, "node1", 2}}}; }

/// The protection of links.
struct Guard {
  Encryption encryption = Encryption::kOff;
  bool checksums = false;
};

Identity identity_of(int rank, Guard guard) {
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes[0] = std::byte{1};
  Identity identity;
  identity.purpose = Purpose::kLink;
  identity.rank = rank;
  identity.size = 2;
  identity.context = "test";
  identity.keys = Keys::derive(Secret(bytes)).value();
  identity.self = {"1", "local", "local", "", ::getpid()};
  identity.encryption = guard.encryption;
  identity.checksums = guard.checksums;
  return identity;
}

/// One rank of two, and all that its links deliver.
class Rank {
 public:
  Rank(int rank, FileDescriptor listener, Routes routes, Duration reconnect, Guard guard)
      : topology_(two_hosts(rank)), manager_(ConnectionManager::create(2).value()) {
    manager_->listen(std::move(listener));
    LinkHooks hooks;
    hooks.frame_arrived = [] {};
    hooks.rank_lost = [](const LostRank&) {};
    hooks.rank_changed = [](int, const PeerLiveness&) {};
    hooks.link_healed = [this](int, const LinkOutage& outage) {
      const MutexLock lock(mutex_);
      outages_.push_back(outage);
    };
    links_.emplace(topology_,
                   LinkArgs{.manager = manager_,
                            .identity = identity_of(rank, guard),
                            .routes = std::move(routes),
                            .timeout = seconds(10)},
                   LossLimits{.link = seconds(10), .freeze = {}, .reconnect = reconnect}, hooks);
  }

  TcpLinks& links() { return *links_; }
  void send(std::span<const std::byte> frame) { links_->send(1 - topology_.rank, frame); }
  void poll() {
    links_->poll({[this](int, std::span<const std::byte> frame) {
                    frames.emplace_back(frame.begin(), frame.end());
                  },
                  [this](const LostRank& loss) { lost = loss; }});
  }
  [[nodiscard]] std::vector<LinkOutage> outages() {
    const MutexLock lock(mutex_);
    return outages_;
  }
  std::vector<std::vector<std::byte>> frames;
  std::optional<LostRank> lost;

 private:
  const Topology topology_;
  std::shared_ptr<ConnectionManager> manager_;
  Mutex mutex_;
  std::vector<LinkOutage> outages_ RONDE_GUARDED_BY(mutex_);
  std::optional<TcpLinks> links_;
};

/// Two linked ranks, and a relay before each.
class Pair {
 public:
  /// `two_interfaces`: the first one of each rank is down.
  explicit Pair(Guard guard, Duration reconnect = kReconnectLimit,
                const std::function<std::size_t()>& reset_after = nullptr,
                bool two_interfaces = false) {
    std::array<FileDescriptor, 2> listeners;
    Routes routes;
    if (two_interfaces) routes.interfaces.resize(2, interface_endpoint("127.0.0.1").value());
    for (std::size_t rank = 0; rank < 2; ++rank) {
      listeners[rank] = listen_on(interface_endpoint("127.0.0.1").value()).value();
      relays[rank].emplace(local_endpoint(listeners[rank].get())->text());
      if (reset_after) relays[rank]->reset_after(reset_after);
      auto& addresses = routes.addresses.emplace_back();
      if (two_interfaces) {
        down[rank].emplace(local_endpoint(listeners[rank].get())->text());
        down[rank]->set_down(true);
        addresses.push_back(parse_endpoint(down[rank]->address()).value());
      }
      addresses.push_back(parse_endpoint(relays[rank]->address()).value());
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ranks[rank].emplace(static_cast<int>(rank), std::move(listeners[rank]), routes, reconnect,
                          guard);
    }
    auto other = std::async(std::launch::async, [this] { return connect(1); });
    REQUIRE(connect(0).ok());
    REQUIRE(other.get().ok());
  }

  Rank& operator[](std::size_t rank) { return *ranks[rank]; }
  void set_down(bool on) {
    for (auto& relay : relays) relay->set_down(on);
  }
  void set_swallowing(bool on) {
    for (auto& relay : relays) relay->set_swallowing(on);
  }
  void reset() {
    for (auto& relay : relays) relay->reset();
  }
  /// Polls both ranks until then; false after a minute.
  bool poll_until(const std::function<bool()>& done) {
    const TimePoint limit = now() + kTestLimit;
    while (!done()) {
      for (auto& rank : ranks) rank->poll();
      std::this_thread::sleep_for(milliseconds(1));
      if (now() > limit) return false;
    }
    return true;
  }

  std::array<std::optional<Relay>, 2> relays;
  std::array<std::optional<Relay>, 2> down;  // of the first interface, where there are two

 private:
  Status connect(std::size_t rank) {
    return ranks[rank]->links().connect({now() + seconds(20), nullptr});
  }

  std::array<std::optional<Rank>, 2> ranks;
};

constexpr Encryption kModes[] = {Encryption::kOff, Encryption::kOn};

/// True if these are the frames that `sender` has sent.
bool are_right(const Rank& rank, int sender, std::size_t count) {
  if (rank.frames.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (rank.frames[i] != make_frame(sender, i, i * 977 % 40'000)) return false;
  }
  return true;
}

void send_numbered(Pair& pair, std::size_t number) {
  for (std::size_t rank = 0; rank < 2; ++rank) {
    pair[rank].send(make_frame(static_cast<int>(rank), number, number * 977 % 40'000));
  }
}

TEST_CASE("frames arrive once and in order over resets, wherever these cut") {
  constexpr std::size_t kFrames = 600;
  for (const Encryption mode : kModes) {
    std::mt19937 random(5);
    Mutex mutex;
    // Within greetings and headers, and after many frames.
    Pair pair({mode}, kReconnectLimit, [&] {
      const MutexLock lock(mutex);
      return 1500 + random() % (random() % 2 == 0 ? 3000U : 2'000'000U);
    });
    for (std::size_t i = 0; i < kFrames; ++i) {
      send_numbered(pair, i);
      for (std::size_t rank = 0; rank < 2; ++rank) pair[rank].poll();
      if (i % 20 == 0) std::this_thread::sleep_for(milliseconds(2));
    }
    CHECK(pair.poll_until(
        [&] { return pair[0].frames.size() >= kFrames && pair[1].frames.size() >= kFrames; }));
    CHECK(are_right(pair[0], 1, kFrames));
    CHECK(are_right(pair[1], 0, kFrames));
    CHECK(pair.relays[0]->connections() + pair.relays[1]->connections() > 5);
    CHECK_FALSE(pair[0].lost);
    CHECK_FALSE(pair[1].lost);
  }
}

TEST_CASE("what an outage has swallowed is sent again, and the outage is told") {
  for (const Encryption mode : kModes) {
    Pair pair({mode});
    send_numbered(pair, 0);
    REQUIRE(pair.poll_until([&] { return pair[0].frames.size() + pair[1].frames.size() == 2; }));
    pair.set_swallowing(true);
    send_numbered(pair, 1);
    std::this_thread::sleep_for(milliseconds(300));
    pair.set_down(true);
    send_numbered(pair, 2);
    std::this_thread::sleep_for(milliseconds(1500));
    pair.set_swallowing(false);
    pair.set_down(false);
    CHECK(pair.poll_until([&] { return pair[0].frames.size() + pair[1].frames.size() >= 6; }));
    CHECK(are_right(pair[0], 1, 3));
    CHECK(are_right(pair[1], 0, 3));
    CHECK(pair.poll_until([&] { return !pair[0].outages().empty(); }));
    const LinkOutage outage = pair[0].outages().front();
    CHECK(outage.reason == "broke: Connection reset by peer");
    CHECK(outage.ended - outage.began > seconds(1));
    CHECK_FALSE(pair[0].lost);
  }
}

TEST_CASE("an outage beyond the limit loses the rank") {
  Pair pair({Encryption::kOff}, seconds(2));
  pair.set_down(true);
  CHECK(pair.poll_until([&] { return pair[0].lost && pair[1].lost; }));
  CHECK(pair[0].lost->rank == 1);
  CHECK(pair[0].lost->how == Loss::kUnreachable);
}

TEST_CASE("a goodbye that was lost is said again") {
  for (const Encryption mode : kModes) {
    Pair pair({mode});
    pair.set_swallowing(true);
    std::thread leaver([&] { pair[1].links().close(); });
    std::this_thread::sleep_for(milliseconds(300));
    pair.set_swallowing(false);
    pair.reset();
    CHECK(pair.poll_until([&] { return pair[0].lost.has_value(); }));
    leaver.join();
    CHECK(pair[0].lost->how == Loss::kLeft);
  }
}

TEST_CASE("a first link that breaks before both have greeted is made again") {
  std::atomic<int> made{0};
  // From the middle of the handshake on, to beyond the greetings.
  Pair pair({Encryption::kOff}, kReconnectLimit, [&] {
    const auto before = static_cast<std::size_t>(made++);
    return before < 40 ? 300 + 50 * before : std::size_t{1} << 40;
  });
  send_numbered(pair, 0);
  CHECK(pair.poll_until([&] { return pair[0].frames.size() + pair[1].frames.size() == 2; }));
  CHECK(made > 2);
  CHECK_FALSE(pair[0].lost);
  CHECK_FALSE(pair[1].lost);
}

TEST_CASE("a link is made over the next interface where one takes too long, also a broken one") {
  Pair pair({Encryption::kOff}, kReconnectLimit, nullptr, /*two_interfaces=*/true);
  CHECK(pair.down[0]->connections() > 0);
  send_numbered(pair, 0);
  CHECK(pair.poll_until([&] { return pair[0].frames.size() + pair[1].frames.size() == 2; }));
  pair.down[0]->set_down(false);
  pair.down[1]->set_down(false);
  pair.set_down(true);
  send_numbered(pair, 1);
  CHECK(pair.poll_until([&] { return pair[0].frames.size() + pair[1].frames.size() == 4; }));
}

TEST_CASE("a flipped bit of a link with checksums costs no frame where links heal") {
  constexpr std::size_t kFrames = 60;
  Pair pair({.checksums = true});
  std::mt19937 random(8);
  for (std::size_t i = 0; i < kFrames; ++i) {
    pair.relays[i % 2]->flip_after(1 + random() % 10'000);
    send_numbered(pair, i);
    REQUIRE(
        pair.poll_until([&] { return pair[1].frames.size() > i && pair[0].frames.size() > i; }));
  }
  for (const int rank : {0, 1}) {
    CHECK(are_right(pair[static_cast<std::size_t>(rank)], 1 - rank, kFrames));
    CHECK_FALSE(pair[static_cast<std::size_t>(rank)].lost);
  }
  CHECK(pair.poll_until([&] {
    const auto outages = pair[0].outages();
    return std::ranges::any_of(outages, &LinkOutage::corrupted);
  }));
}

TEST_CASE("a changed frame of a link with checksums is final where links do not heal") {
  Pair pair({.checksums = true}, Duration::zero());
  for (auto& relay : pair.relays) relay->flip_after(100);
  send_numbered(pair, 20);
  CHECK(pair.poll_until([&] { return pair[0].lost || pair[1].lost; }));
  CHECK((pair[0].lost ? pair[0] : pair[1]).lost->how == Loss::kAltered);
  CHECK(pair[0].frames.empty());
}

TEST_CASE("a changed record is final") {
  Pair pair({Encryption::kOn});
  for (auto& relay : pair.relays) relay->flip_after(100);
  send_numbered(pair, 20);
  CHECK(pair.poll_until([&] { return pair[0].lost || pair[1].lost; }));
  CHECK((pair[0].lost ? pair[0] : pair[1]).lost->how == Loss::kAltered);
}

}  // namespace
}  // namespace ronde::net
