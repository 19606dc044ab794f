// Links between many (pretended) hosts: which there are, and how losses become known along them.
#include "backends/net/control/tcp_links.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/processes.h"
#include "tests/backends/net/test_job.h"

namespace ronde::net {
namespace {

constexpr int kHosts = 12;  // rank 0 has ranks 1 to 8 below it, and rank 1 ranks 9 to 11
constexpr std::chrono::seconds kTakingPlaces{1};  // the time to take places of ranks that left

/// TCP connections of this process.
int connections() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    const int fd = std::stoi(entry.path().filename());
    const bool connected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (connected && peer.sin_family == AF_INET) ++count;
  }
  return count;
}

/// Runs `body(channel, rank)` as one rank on each host.
std::vector<int> run_hosts(const std::function<int(ControlChannel&, int rank)>& body,
                           std::chrono::seconds reconnect_limit = {}) {
  const TestJob job(kHosts, Layout::kEachAlone);
  return run_ranks(kHosts, [&](int rank) {
    Config config = job.config(rank);
    config.reconnect_limit = reconnect_limit;
    auto link = job.connect(config);
    if (!link.ok()) std::fprintf(stderr, "%s\n", link.status().to_string().c_str());
    RONDE_CHILD_REQUIRE(link.ok());
    return body(*link->channel, rank);
  });
}

/// Waits until rank 0 has heard of all the others, which have heard of it, for the `round`-th time.
int meet(ControlChannel& channel, Collector& sink, std::size_t round) {
  const int rank = channel.topology().rank;
  const std::size_t others = rank == 0 ? kHosts - 1 : 1;
  if (rank != 0) RONDE_CHILD_REQUIRE(channel.send(0, make_frame(rank, 0, 8)).ok());
  RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.count == round * others; }));
  if (rank != 0) return 0;
  for (int to = 1; to < kHosts; ++to) {
    RONDE_CHILD_REQUIRE(channel.send(to, make_frame(0, 0, 8)).ok());
  }
  channel.kick();
  return 0;
}

std::vector<int> all_but(int dead) {
  std::vector<int> codes = all_good(kHosts);
  codes[static_cast<std::size_t>(dead)] = -SIGKILL;
  return codes;
}

TEST_CASE("hosts are linked along the tree, and further when a frame needs it") {
  CHECK(run_hosts([](ControlChannel& channel, int rank) {
          const int expected = rank == 1 ? 4 : 1;
          // The other side may not have closed yet what the rendezvous used. Others link themselves
          // with rank 0 meanwhile.
          const TimePoint limit = now() + std::chrono::seconds(30);
          while (rank != 0 && connections() != expected && now() < limit) ::usleep(1000);
          RONDE_CHILD_REQUIRE(rank == 0 || connections() == expected);
          Collector sink;
          RONDE_CHILD_REQUIRE(meet(channel, sink, 1) == 0);
          RONDE_CHILD_REQUIRE(connections() == (rank == 0 ? 11 : rank < 9 ? expected : 2));
          return meet(channel, sink, 2);
        }) == all_good(kHosts));
}

TEST_CASE("two ranks that need a link at the same time lose no frame") {
  constexpr std::size_t kFrames = 20;
  CHECK(run_hosts([](ControlChannel& channel, int rank) {
          Collector sink;
          for (std::size_t i = 0; i < kFrames; ++i) {
            for (int to = 0; to < kHosts; ++to) {
              if (to == rank) continue;
              RONDE_CHILD_REQUIRE(channel.send(to, make_frame(rank, i, 100 * i)).ok());
            }
          }
          RONDE_CHILD_REQUIRE(
              poll_until(channel, sink, [&] { return sink.count == kFrames * (kHosts - 1); }));
          for (const auto& [from, frames] : sink.frames) {
            for (std::size_t i = 0; i < kFrames; ++i) {
              RONDE_CHILD_REQUIRE(frames[i] == make_frame(from, i, 100 * i));
            }
          }
          return 0;
        }) == all_good(kHosts));
}

/// One rank dies once all have met; all others learn of it before `limit`.
void check_death(int dead, std::chrono::seconds reconnect_limit, std::chrono::seconds limit) {
  CAPTURE(dead);
  const auto body = [&](ControlChannel& channel, int rank) {
    Collector sink;
    RONDE_CHILD_REQUIRE(meet(channel, sink, 1) == 0);
    // Rank 0 dies once all have its frame.
    if (rank != 0 && dead == 0) RONDE_CHILD_REQUIRE(channel.send(0, {}).ok());
    const auto all_have_it = [&] { return sink.count == std::size_t{2} * (kHosts - 1); };
    if (rank == 0 && dead == 0) RONDE_CHILD_REQUIRE(poll_until(channel, sink, all_have_it));
    if (rank == dead) ::kill(::getpid(), SIGKILL);
    const TimePoint start = now();
    RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.lost.contains(dead); }));
    RONDE_CHILD_REQUIRE(now() < start + limit);
    return 0;
  };
  CHECK(run_hosts(body, reconnect_limit) == all_but(dead));
}

TEST_CASE("the death of any rank becomes known to all, without a link to it") {
  for (const int dead : {0, 1, 10}) check_death(dead, {}, std::chrono::seconds(60));
}

TEST_CASE("the death of any rank becomes known where links heal: it refuses connections") {
  const std::chrono::seconds reconnect_limit(120);
  for (const int dead : {0, 1, 10}) check_death(dead, reconnect_limit, std::chrono::seconds(60));
}

/// Rank 1 leaves; those below it take other places. Then rank 10 dies.
TEST_CASE("a tree that a rank has left brings the news of a later death") {
  CHECK(run_hosts([](ControlChannel& channel, int rank) {
          Collector sink;
          RONDE_CHILD_REQUIRE(meet(channel, sink, 1) == 0);
          if (rank == 1) return 0;
          RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.left.contains(1); }));
          RONDE_CHILD_REQUIRE(channel.send(1, {}).code() == Code::kRankFailure);
          if (rank == 10) {
            std::this_thread::sleep_for(kTakingPlaces);
            ::kill(::getpid(), SIGKILL);
          }
          RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.lost.contains(10); }));
          RONDE_CHILD_REQUIRE(sink.lost.size() == 1);
          return 0;
        }) == all_but(10));
}

/// Ranks 2 and 3 had no link before.
TEST_CASE("ranks whose leaders leave at the same time take their places") {
  const TestJob job(4, Layout::kTwoHosts);
  CHECK(run_ranks(4, [&](int rank) {
          auto link = job.connect(job.config(rank));
          RONDE_CHILD_REQUIRE(link.ok());
          if (rank < 2) return 0;
          ControlChannel& channel = *link->channel;
          Collector sink;
          RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.left.size() == 2; }));
          if (rank == 3) {
            std::this_thread::sleep_for(kTakingPlaces);
            ::kill(::getpid(), SIGKILL);
          }
          RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.lost.contains(3); }));
          return 0;
        }) == std::vector<int>{0, 0, 0, -SIGKILL});
}

}  // namespace
}  // namespace ronde::net
