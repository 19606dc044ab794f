// Unauthenticated peers do not disturb a job.
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "backends/net/connection/socket.h"
#include "backends/net/connection/stream.h"
#include "core/base/bytes.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/processes.h"
#include "tests/backends/net/test_job.h"

namespace ronde::net {
namespace {

/// Connects as soon as somebody listens there; an invalid descriptor after 10 s.
FileDescriptor connect_to(const std::string& address) {
  const Endpoint endpoint = parse_endpoint(address).value();
  const TimePoint limit = now() + std::chrono::seconds(10);
  while (now() < limit) {
    auto fd = start_connect({endpoint});
    if (fd.ok() && wait_for(fd->get(), POLLOUT, limit) && connect_result(fd->get()).ok()) {
      return std::move(*fd);
    }
    ::usleep(1000);
  }
  return FileDescriptor();
}

/// Silence, garbage, a truncated hello, much garbage: all at once, and again.
void pester(const std::string& address, std::vector<Stream>& open) {
  std::mt19937 random(5);
  for (const std::size_t bytes : {0U, 1U, 103U, 104U, 1000U, 100'000U}) {
    Stream stream(connect_to(address));
    std::string garbage(bytes, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    if (stream.valid()) (void)send_all(stream, as_bytes(garbage), now()).ok();
    open.push_back(std::move(stream));
  }
}

TEST_CASE("unauthenticated peers do not disturb the rendezvous") {
  const TestJob job(3, Layout::kEachAlone);
  Processes processes;
  const auto start = [&](int rank) {
    processes.start([&, rank] {
      auto link = job.connect(rank);
      RONDE_CHILD_REQUIRE(link.ok());
      Collector sink;
      for (int to = 0; to < 3; ++to) {
        if (to != rank) RONDE_CHILD_REQUIRE(link->channel->send(to, {}).ok());
      }
      RONDE_CHILD_REQUIRE(poll_until(*link->channel, sink, [&] { return sink.count == 2; }));
      link->channel->close();
      return 0;
    });
  };
  start(0);
  start(1);
  std::vector<Stream> open;
  for (int i = 0; i < 20; ++i) pester(job.config(0).rendezvous, open);
  CHECK(std::all_of(open.begin(), open.end(), [](const Stream& stream) { return stream.valid(); }));
  start(2);  // the others have waited for it
  CHECK(processes.wait_all() == all_good(3));
}

TEST_CASE("a rank with another secret is not let in, and both sides say why") {
  const TestJob job(2, Layout::kEachAlone);
  const TestJob other(2, Layout::kEachAlone);
  Processes processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.start([&, rank] {
      Config config = job.config(rank);
      config.start_timeout = std::chrono::milliseconds(500);
      if (rank == 1) config.secret_file = other.config(1).secret_file;
      const auto link = job.connect(config);
      RONDE_CHILD_REQUIRE(!link.ok());
      const std::string text = link.status().message();
      RONDE_CHILD_REQUIRE(text.find("another secret") != std::string::npos);
      RONDE_CHILD_REQUIRE(text.find("RONDE_SECRET_FILE") != std::string::npos);
      RONDE_CHILD_REQUIRE(rank != 0 || text.find("rank 1 came with") != std::string::npos);
      return 0;
    });
  }
  CHECK(processes.wait_all() == all_good(2));
}

TEST_CASE("a rendezvous without a secret, or on all interfaces, is refused by name") {
  const TestJob job(2, Layout::kEachAlone);
  Config config = job.config(0);
  config.secret_file.clear();
  CHECK(job.connect(config).status().message().find("RONDE_SECRET_FILE") != std::string::npos);
  config = job.config(0);
  config.rendezvous = "0.0.0.0:0";
  CHECK(job.connect(config).status().message().find("all interfaces") != std::string::npos);
  config.rendezvous = "nonsense";
  CHECK(job.connect(config).status().code() == Code::kInvalidArgument);
  config = job.config(0);
  config.network_interface = "no-such-interface";
  CHECK(job.connect(config).status().message().find("RONDE_NETWORK_INTERFACE") !=
        std::string::npos);
}

TEST_CASE("ranks connect over IPv6") {
  const TestJob job(2, Layout::kEachAlone, "::1");
  CHECK(run_ranks(2, [&](int rank) {
          auto link = job.connect(rank);
          RONDE_CHILD_REQUIRE(link.ok());
          Collector sink;
          RONDE_CHILD_REQUIRE(link->channel->send(1 - rank, make_frame(rank, 0, 99)).ok());
          RONDE_CHILD_REQUIRE(poll_until(*link->channel, sink, [&] { return sink.count == 1; }));
          return 0;
        }) == all_good(2));
}

TEST_CASE("a missing rank of another host is named on every rank that came") {
  const TestJob job(4, Layout::kTwoHosts);
  Processes processes;
  for (const int rank : {0, 1, 2}) {
    processes.start([&, rank] {
      Config config = job.config(rank);
      config.start_timeout = std::chrono::milliseconds(500);
      const auto link = job.connect(config);
      RONDE_CHILD_REQUIRE(link.status().code() == Code::kTimeout);
      RONDE_CHILD_REQUIRE(link.status().message().find("rank 3") != std::string::npos);
      return 0;
    });
  }
  CHECK(processes.wait_all() == all_good(3));
}

TEST_CASE("the job's token is aborted without anybody polling, on all hosts") {
  for (const Layout layout : {Layout::kOneHost, Layout::kTwoHosts}) {
    CAPTURE(name_of(layout));
    const TestJob job(4, layout);
    const auto codes = run_ranks(4, [&](int rank) {
      const auto abort = std::make_shared<AbortToken>();
      auto link = job.connect(job.config(rank), {.version = "1", .abort = abort});
      RONDE_CHILD_REQUIRE(link.ok());
      if (rank == 3) ::kill(::getpid(), SIGKILL);
      for (int i = 0; i < 20'000 && !abort->aborted(); ++i) ::usleep(1000);
      RONDE_CHILD_REQUIRE(abort->status().failed_rank()->rank == 3);
      ::usleep(100'000);  // nobody leaves before all have looked: leaving is no failure, though
      return 0;
    });
    CHECK(codes == std::vector<int>{0, 0, 0, -SIGKILL});
  }
}

TEST_CASE("a rank that leaves aborts nothing") {
  for (const Layout layout : {Layout::kOneHost, Layout::kEachAlone}) {
    const TestJob job(2, layout);
    const auto codes = run_ranks(2, [&](int rank) {
      const auto abort = std::make_shared<AbortToken>();
      auto link = job.connect(job.config(rank), {.version = "1", .abort = abort});
      RONDE_CHILD_REQUIRE(link.ok());
      if (rank == 1) return 0;
      Collector sink;
      RONDE_CHILD_REQUIRE(poll_until(*link->channel, sink, [&] { return sink.left.contains(1); }));
      RONDE_CHILD_REQUIRE(!abort->aborted());
      return 0;
    });
    CHECK(codes == all_good(2));
  }
}

}  // namespace
}  // namespace ronde::net
