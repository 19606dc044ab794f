// Connecting the ranks of one host, and the errors where a rank does not come.
#include "backends/net/factory.h"

#include <doctest/doctest.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "core/base/os/file_descriptor.h"
#include "core/base/os/interfaces.h"
#include "tests/backends/net/processes.h"
#include "tests/backends/net/test_job.h"

namespace ronde::net {
namespace {

TEST_CASE("a job of one rank has a channel and no peers") {
  auto link = connect_job(Config{}, {"1"});
  REQUIRE(link.ok());
  CHECK(link->channel->topology().size() == 1);
  CHECK(link->channel->topology().peers[0].pid == ::getpid());
  const std::byte byte{};
  CHECK(link->channel->send(0, {&byte, 1}).code() == Code::kInvalidArgument);
  link->channel->close();
  link->channel->close();
}

TEST_CASE("ranks of one host connect and agree on the topology") {
  for (const int size : {2, 3, 5}) {
    const std::string job = unique_job_id();
    const auto codes = run_ranks(size, [&](int rank) {
      auto link = connect_job(rank_config(job, rank, size), {"1"});
      RONDE_CHILD_REQUIRE(link.ok());
      const Topology& topology = link->channel->topology();
      RONDE_CHILD_REQUIRE(topology.size() == size && topology.rank == rank);
      RONDE_CHILD_REQUIRE(topology.host_count() == 1);
      RONDE_CHILD_REQUIRE(topology.peers[static_cast<std::size_t>(rank)].pid == ::getpid());
      return 0;
    });
    CHECK(codes == all_good(size));
  }
}

TEST_CASE("a missing rank is named on every rank that came") {
  const std::string job = unique_job_id();
  Processes processes;
  for (const int rank : {0, 1, 3}) {
    processes.start([&, rank] {
      Config config = rank_config(job, rank, 4);
      config.start_timeout = std::chrono::milliseconds(500);
      const auto link = connect_job(config, {"1"});
      RONDE_CHILD_REQUIRE(link.status().code() == Code::kTimeout);
      RONDE_CHILD_REQUIRE(link.status().message().find("rank 2") != std::string::npos);
      return 0;
    });
  }
  CHECK(processes.wait_all() == all_good(3));
}

/// Becomes readable after `delay`; from then on its status is kAborted.
struct Cancelling {
  explicit Cancelling(std::chrono::milliseconds delay)
      : timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    const itimerspec once{{}, {0, static_cast<long>(std::chrono::nanoseconds(delay).count())}};
    ::timerfd_settime(timer.get(), 0, &once, nullptr);
  }
  [[nodiscard]] CancelSource source() {
    return {timer.get(), [this]() -> Status {
              std::uint64_t fired = 0;
              cancelled |= ::read(timer.get(), &fired, sizeof(fired)) > 0;
              if (!cancelled) return {};
              return {Code::kAborted, "rank 2 is gone"};
            }};
  }

  FileDescriptor timer;
  bool cancelled = false;
};

TEST_CASE("ranks that wait for one that does not come end as soon as they are told to") {
  for (const Layout layout :
       {Layout::kOneHost, Layout::kTwoHosts, Layout::kEachAlone, Layout::kEncrypted}) {
    for (const int missing : {0, 1, 2}) {
      CAPTURE(name_of(layout));
      CAPTURE(missing);
      const TestJob job(3, layout);
      const auto codes = run_ranks(3, [&](int rank) {
        if (rank == missing) return 0;
        Cancelling cancelling(std::chrono::milliseconds(100));
        const TimePoint began = now();
        const auto link =
            job.connect(job.config(rank), {.version = "1", .cancel = cancelling.source()});
        RONDE_CHILD_REQUIRE(!link.ok());  // by its own source, or another rank's
        RONDE_CHILD_REQUIRE(now() - began < std::chrono::seconds(2));
        return 0;
      });
      CHECK(codes == all_good(3));
    }
  }
}

TEST_CASE("a start that is cancelled ends with the reason") {
  Cancelling cancelling(std::chrono::milliseconds(20));
  const Config config = rank_config(unique_job_id(), 0, 2);
  const auto link = connect_job(config, {.version = "1", .cancel = cancelling.source()});
  CHECK(link.status().code() == Code::kAborted);
  CHECK(link.status().message() == "rank 2 is gone");
}

TEST_CASE("without rank 0 the others say that they could not reach it") {
  Config config = rank_config(unique_job_id(), 1, 2);
  config.start_timeout = std::chrono::milliseconds(100);
  const auto link = connect_job(config, {"1"});
  CHECK(link.status().code() == Code::kTimeout);
  CHECK(link.status().message().find("could not reach rank 0") != std::string::npos);
  CHECK(link.status().message().ends_with("as one user in one network namespace"));
  REQUIRE(link.status().failed_rank());
  CHECK(link.status().failed_rank()->rank == 0);
}

TEST_CASE(
    "a rank that cannot reach rank 0's host names its own host, the rendezvous and a remedy") {
  const TestJob job(2, Layout::kTwoHosts);
  Config config = job.config(1);
  config.start_timeout = std::chrono::milliseconds(100);
  const auto link = job.connect(config);
  CHECK(link.status().code() == Code::kTimeout);
  const std::string about =
      "; on " + host_name() + " the rendezvous is " + config.rendezvous + ": ";
  CHECK(link.status().message().find(about) != std::string::npos);
  CHECK(link.status().message().find("RONDE_NETWORK_INTERFACE") != std::string::npos);
  CHECK(link.status().failed_rank()->rank == 0);
}

TEST_CASE("another version is refused on all ranks, naming ranks, hosts and versions") {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(3, [&](int rank) {
    const ConnectOptions options{.version = rank == 2 ? "0.2" : "0.1",
                                 .host_name = rank == 2 ? "node-b" : "node-a",
                                 .host_identity = "same"};
    Config config = rank_config(job, rank, 3);
    config.start_timeout = std::chrono::seconds(2);
    const auto link = connect_job(config, options);
    RONDE_CHILD_REQUIRE(!link.ok());
    // Rank 1 may come when rank 0 has already given up.
    if (rank == 1 && link.status().code() == Code::kTimeout) return 0;
    RONDE_CHILD_REQUIRE(link.status().code() == Code::kVersionMismatch);
    const std::string text = link.status().message();
    RONDE_CHILD_REQUIRE(text.find("rank 0 on node-a runs Ronde 0.1") != std::string::npos);
    RONDE_CHILD_REQUIRE(text.find("rank 2 on node-b runs Ronde 0.2") != std::string::npos);
    return 0;
  });
  CHECK(codes == all_good(3));
}

TEST_CASE("two processes with the same rank are an error that names both") {
  const std::string job = unique_job_id();
  Processes processes;
  for (const int rank : {0, 1, 1}) {
    processes.start([&, rank] {
      const auto link = connect_job(rank_config(job, rank, 3), {"1"});
      RONDE_CHILD_REQUIRE(!link.ok());
      if (rank != 0) return 0;
      RONDE_CHILD_REQUIRE(link.status().message().find("two processes say they are rank 1") == 0);
      return 0;
    });
  }
  CHECK(processes.wait_all() == all_good(3));
}

TEST_CASE("a job can be joined again and again") {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(3, [&](int rank) {
    for (int round = 0; round < 30; ++round) {
      auto link = connect_job(rank_config(job, rank, 3), {"1"});
      RONDE_CHILD_REQUIRE(link.ok());
      link->channel->close();
    }
    return 0;
  });
  CHECK(codes == all_good(3));
}

TEST_CASE("ranks of two hosts list their interfaces, and use as many as all have") {
  for (const bool alike : {true, false}) {
    CAPTURE(alike);
    const TestJob job(2, Layout::kTwoHosts);
    const auto codes = run_ranks(2, [&](int rank) {
      Config config = job.config(rank);
      config.network_interface = alike || rank == 0 ? "127.0.0.1,127.0.0.2" : "127.0.0.1";
      const auto link = job.connect(config);
      RONDE_CHILD_REQUIRE(link.ok());
      RONDE_CHILD_REQUIRE(link->interfaces.names == (alike ? "lo,127.0.0.2" : "lo"));
      link->channel->close();
      return 0;
    });
    CHECK(codes == all_good(2));
  }
}

TEST_CASE("settings that make no sense are refused by name") {
  Config config;
  config.size = 2;
  CHECK(connect_job(config, {"1"}).status().message().find("RONDE_JOB_ID") != std::string::npos);
  config.rank = 2;
  CHECK(connect_job(config, {"1"}).status().code() == Code::kInvalidArgument);
}

}  // namespace
}  // namespace ronde::net
