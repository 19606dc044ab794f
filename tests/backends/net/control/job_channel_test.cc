// The channel between processes, on one host and across (pretended) hosts: frames, sleeping and
// waking, leaving and dying.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/base/log.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/processes.h"
#include "tests/backends/net/test_job.h"

namespace ronde::net {
namespace {

constexpr std::size_t kSizes[] = {0,     1,     7,     8,      9,       1000, 4096,
                                  65528, 65536, 65544, 300001, 1 << 20, 5,    0};
constexpr Layout kLayouts[] = {Layout::kOneHost, Layout::kTwoHosts, Layout::kEachAlone,
                               Layout::kEncrypted};

/// Runs `body(channel, rank)` as all ranks of a job.
std::vector<int> run_job(int size, Layout layout,
                         const std::function<int(ControlChannel&, int rank)>& body) {
  const TestJob job(size, layout);
  return run_ranks(size, [&](int rank) {
    auto link = job.connect(rank);
    if (!link.ok()) std::fprintf(stderr, "%s\n", link.status().to_string().c_str());
    RONDE_CHILD_REQUIRE(link.ok());
    return body(*link->channel, rank);
  });
}

bool frames_are_right(const Collector& sink, int from) {
  const auto found = sink.frames.find(from);
  if (found == sink.frames.end() || found->second.size() != std::size(kSizes)) return false;
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    if (found->second[i] != make_frame(from, i, kSizes[i])) return false;
  }
  return true;
}

int exchange_all_sizes(ControlChannel& channel, int rank, int size) {
  Collector sink;
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    for (int to = 0; to < size; ++to) {
      if (to == rank) continue;
      RONDE_CHILD_REQUIRE(channel.send(to, make_frame(rank, i, kSizes[i])).ok());
    }
  }
  const std::size_t expected = std::size(kSizes) * static_cast<std::size_t>(size - 1);
  RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.count == expected; }));
  for (int from = 0; from < size; ++from) {
    RONDE_CHILD_REQUIRE(from == rank || frames_are_right(sink, from));
  }
  channel.close();  // what is still queued for slower peers is sent before
  return 0;
}

TEST_CASE("frames of all sizes arrive whole and in order") {
  for (const Layout layout : kLayouts) {
    CAPTURE(name_of(layout));
    for (const int size : {2, 3, 5}) {
      CHECK(run_job(size, layout, [&](ControlChannel& channel, int rank) {
              return exchange_all_sizes(channel, rank, size);
            }) == all_good(size));
    }
  }
}

TEST_CASE("the topology numbers hosts by their lowest rank") {
  CHECK(run_job(4, Layout::kTwoHosts, [](ControlChannel& channel, int rank) {
          const Topology& topology = channel.topology();
          RONDE_CHILD_REQUIRE(topology.rank == rank && topology.host_count() == 2);
          for (int r = 0; r < 4; ++r) {
            const PeerInfo& peer = topology.peers[static_cast<std::size_t>(r)];
            RONDE_CHILD_REQUIRE(peer.host_index == r % 2);
            RONDE_CHILD_REQUIRE(peer.host_name == (r % 2 == 0 ? "node0" : "node1"));
          }
          return 0;
        }) == all_good(4));
}

TEST_CASE("a frame that is too long, or to nobody, is refused") {
  for (const Layout layout : {Layout::kOneHost, Layout::kEachAlone}) {
    CHECK(run_job(2, layout, [](ControlChannel& channel, int rank) {
            const std::vector<std::byte> frame(kMaxFrameBytes + 1);
            RONDE_CHILD_REQUIRE(channel.send(1 - rank, frame).code() == Code::kInvalidArgument);
            RONDE_CHILD_REQUIRE(channel.send(rank, {}).code() == Code::kInvalidArgument);
            RONDE_CHILD_REQUIRE(channel.send(2, {}).code() == Code::kInvalidArgument);
            RONDE_CHILD_REQUIRE(channel.send(-1, {}).code() == Code::kInvalidArgument);
            return 0;
          }) == all_good(2));
  }
}

/// A token goes round; every rank sleeps until it comes. A lost wake-up hangs.
int pass_token(ControlChannel& channel, int rank, int size, std::size_t rounds) {
  Collector sink;
  const int next = (rank + 1) % size;
  if (rank == 0) RONDE_CHILD_REQUIRE(channel.send(next, make_frame(0, 0, 16)).ok());
  for (std::size_t round = 1; round <= rounds; ++round) {
    const Sleeper who = round % 3 == 0 ? Sleeper::kBackground : Sleeper::kCaller;
    RONDE_CHILD_REQUIRE(poll_until(
        channel, sink, [&] { return sink.count == round; }, who));
    if (rank != 0 || round < rounds) RONDE_CHILD_REQUIRE(channel.send(next, {}).ok());
    channel.kick();
  }
  return 0;
}

TEST_CASE("no wake-up is lost in thousands of sleeps") {
  for (const Layout layout : kLayouts) {
    CAPTURE(name_of(layout));
    for (const int size : {2, 4}) {
      CHECK(run_job(size, layout, [&](ControlChannel& channel, int rank) {
              return pass_token(channel, rank, size, 2000);
            }) == all_good(size));
    }
  }
}

int leave_after_two_frames(ControlChannel& channel) {
  for (const int to : {0, 2}) {
    RONDE_CHILD_REQUIRE(channel.send(to, make_frame(1, 0, 200'000)).ok());
    RONDE_CHILD_REQUIRE(channel.send(to, make_frame(1, 1, 3)).ok());
  }
  channel.close();
  RONDE_CHILD_REQUIRE(channel.send(0, {}).code() == Code::kAborted);
  return 0;
}

int see_rank_1_leave(ControlChannel& channel, int rank) {
  Collector sink;
  RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.left.contains(1); }));
  RONDE_CHILD_REQUIRE(sink.frames[1].size() == 2);
  RONDE_CHILD_REQUIRE(sink.frames[1][0] == make_frame(1, 0, 200'000));
  const Status& reason = sink.left.at(1);
  RONDE_CHILD_REQUIRE(reason.code() == Code::kRankFailure);
  RONDE_CHILD_REQUIRE(reason.message().find("has left the job") != std::string::npos);
  RONDE_CHILD_REQUIRE(reason.failed_rank()->rank == 1);
  RONDE_CHILD_REQUIRE(channel.send(1, {}).code() == Code::kRankFailure);
  RONDE_CHILD_REQUIRE(sink.lost.empty());
  // The others are still there for each other.
  RONDE_CHILD_REQUIRE(channel.send(2 - rank, make_frame(rank, 0, 9)).ok());
  RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.frames.contains(2 - rank); }));
  return 0;
}

TEST_CASE("leaving is reported after the last frame, and is not a death") {
  for (const Layout layout : kLayouts) {
    CAPTURE(name_of(layout));
    CHECK(run_job(3, layout, [](ControlChannel& channel, int rank) {
            return rank == 1 ? leave_after_two_frames(channel) : see_rank_1_leave(channel, rank);
          }) == all_good(3));
  }
}

int see_rank_die(ControlChannel& channel, int dead) {
  Collector sink;
  RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.lost.contains(dead); }));
  const Status& reason = sink.lost.at(dead);
  RONDE_CHILD_REQUIRE(reason.code() == Code::kRankFailure);
  RONDE_CHILD_REQUIRE(reason.message().find("died") != std::string::npos);
  const auto& failed = reason.failed_rank();
  const PeerInfo& peer = channel.topology().peers[static_cast<std::size_t>(dead)];
  RONDE_CHILD_REQUIRE(failed && failed->rank == dead && failed->pid == peer.pid);
  RONDE_CHILD_REQUIRE(failed->host == peer.host_name && !failed->host.empty());
  return 0;
}

TEST_CASE("a killed rank is reported to all survivors") {
  for (const Layout layout : kLayouts) {
    CAPTURE(name_of(layout));
    CHECK(run_job(4, layout, [](ControlChannel& channel, int rank) {
            if (rank == 2) ::kill(::getpid(), SIGKILL);
            return see_rank_die(channel, 2);
          }) == std::vector<int>{0, 0, -SIGKILL, 0});
  }
}

TEST_CASE("frames that a rank sent before it was killed are delivered first") {
  CHECK(run_job(2, Layout::kOneHost, [](ControlChannel& channel, int rank) {
          if (rank == 1) {
            RONDE_CHILD_REQUIRE(channel.send(0, make_frame(1, 0, 5000)).ok());
            ::kill(::getpid(), SIGKILL);
          }
          Collector sink;
          RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] { return sink.lost.contains(1); }));
          RONDE_CHILD_REQUIRE(sink.frames[1].size() == 1);
          return 0;
        }) == std::vector<int>{0, -SIGKILL});
}

TEST_CASE("all deaths are reported, also of ranks that watched each other") {
  for (const Layout layout : kLayouts) {
    CAPTURE(name_of(layout));
    CHECK(run_job(5, layout, [](ControlChannel& channel, int rank) {
            if (rank == 1 || rank == 2 || rank == 4) ::kill(::getpid(), SIGKILL);
            Collector sink;
            RONDE_CHILD_REQUIRE(poll_until(channel, sink, [&] {
              return sink.lost.contains(1) && sink.lost.contains(2) && sink.lost.contains(4);
            }));
            return 0;
          }) == std::vector<int>{0, -SIGKILL, -SIGKILL, 0, -SIGKILL});
  }
}

TEST_CASE("a process that exits without leaving has died") {
  for (const Layout layout : {Layout::kOneHost, Layout::kEachAlone}) {
    CHECK(run_job(2, layout, [](ControlChannel& channel, int rank) {
            if (rank == 1) ::_exit(7);
            return see_rank_die(channel, 1);
          }) == std::vector<int>{0, 7});
  }
}

/// Rank 1 stops; rank 0 sees it given up, lets it run on, and leaves. Rank 1 must learn of it too.
int freeze_for_good(const TestJob& job, int rank) {
  Config config = job.config(rank);
  config.link_timeout = std::chrono::milliseconds(300);  // its host answers: no matter
  config.freeze_timeout = std::chrono::seconds(1);
  auto link = job.connect(config);
  RONDE_CHILD_REQUIRE(link.ok());
  if (rank == 1) ::raise(SIGSTOP);
  Collector sink;
  RONDE_CHILD_REQUIRE(poll_until(*link->channel, sink, [&] { return !sink.lost.empty(); }));
  if (rank == 1) return 0;
  const std::string text = sink.lost.at(1).message();
  RONDE_CHILD_REQUIRE(text.find("was frozen for 1 s and is given up") != std::string::npos);
  ::kill(link->channel->topology().peers[1].pid, SIGCONT);
  return 0;
}

TEST_CASE("a frozen rank is given up after the freeze timeout, and knows it when it runs again") {
  for (const Layout layout : {Layout::kOneHost, Layout::kEachAlone}) {
    CAPTURE(name_of(layout));
    const TestJob job(2, layout);
    const auto codes = run_ranks(2, [&](int rank) { return freeze_for_good(job, rank); });
    CHECK(codes[0] == 0);
    CHECK(codes[1] == 0);
  }
}

/// Rank 1 stops for longer than the link timeout; nothing is lost, and it is told of on rank 0.
int freeze_for_a_while(const TestJob& job, int rank) {
  static std::atomic<int> suspected{0};
  static std::atomic<int> back{0};
  static std::atomic<int> told_of_cut{0};
  set_log(LogLevel::kWarning, [](LogLevel, std::string_view text) {
    if (text.find("rank 1") == std::string_view::npos) return;
    if (text.find("but only 0.3 s if its host") != std::string_view::npos) ++told_of_cut;
    if (text.find("is frozen") != std::string_view::npos) ++suspected;
    if (text.find("runs again") != std::string_view::npos) ++back;
  });
  Config config = job.config(rank);
  config.link_timeout = std::chrono::milliseconds(300);
  auto link = job.connect(config);
  RONDE_CHILD_REQUIRE(link.ok());
  Collector sink;
  if (rank == 1) {
    ::raise(SIGSTOP);
    RONDE_CHILD_REQUIRE(link->channel->send(0, make_frame(1, 0, 9)).ok());
  } else {
    const TimePoint limit = now() + std::chrono::seconds(30);
    while (suspected == 0 && now() < limit) link->channel->poll(sink);
    RONDE_CHILD_REQUIRE(suspected == 1);
    const Topology& topology = link->channel->topology();
    RONDE_CHILD_REQUIRE(told_of_cut == (topology.same_host(0, 1) ? 0 : 1));
    ::kill(link->channel->topology().peers[1].pid, SIGCONT);
    RONDE_CHILD_REQUIRE(poll_until(*link->channel, sink, [&] { return sink.count == 1; }));
    while (back == 0 && now() < limit) link->channel->poll(sink);
    RONDE_CHILD_REQUIRE(back == 1 && sink.lost.empty());
    RONDE_CHILD_REQUIRE(link->channel->send(1, make_frame(0, 0, 9)).ok());
  }
  RONDE_CHILD_REQUIRE(poll_until(*link->channel, sink, [&] { return sink.count == 1; }));
  return 0;
}

TEST_CASE("a rank that is frozen for a while is named, waited for, and named when it is back") {
  for (const Layout layout : {Layout::kOneHost, Layout::kEachAlone}) {
    CAPTURE(name_of(layout));
    const TestJob job(2, layout);
    CHECK(run_ranks(2, [&](int rank) { return freeze_for_a_while(job, rank); }) == all_good(2));
  }
}

TEST_CASE("a forked child that drops the channel does not look like a leaving rank") {
  for (const Layout layout : {Layout::kOneHost, Layout::kEachAlone}) {
    CAPTURE(name_of(layout));
    const TestJob job(2, layout);
    const auto codes = run_ranks(2, [&](int rank) {
      auto link = job.connect(rank);
      RONDE_CHILD_REQUIRE(link.ok());
      if (rank == 0) {
        Processes child;
        child.start([&] {
          link->channel.reset();
          return 0;
        });
        RONDE_CHILD_REQUIRE(child.wait_all() == all_good(1));
      }
      Collector sink;
      RONDE_CHILD_REQUIRE(link->channel->send(1 - rank, make_frame(rank, 0, 4)).ok());
      RONDE_CHILD_REQUIRE(poll_until(*link->channel, sink, [&] { return sink.count == 1; }));
      return 0;
    });
    CHECK(codes == all_good(2));
  }
}

}  // namespace
}  // namespace ronde::net
