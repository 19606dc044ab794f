// The rendezvous along a tree of hosts.
#include "backends/net/meet/tree_rendezvous.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "backends/net/connection/frame.h"
#include "backends/net/connection/stream.h"
#include "backends/net/mesh/connector.h"
#include "core/base/bytes.h"
#include "core/protocol/tree.h"
#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

/// Ports that nobody listens on: below those that the kernel gives to outgoing connections.
std::vector<Endpoint> free_endpoints(std::size_t count) {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<std::uint16_t> pick(10'000, 19'999);
  std::vector<Endpoint> endpoints;
  std::vector<FileDescriptor> held;
  while (endpoints.size() < count) {
    const Endpoint endpoint = numeric_host("127.0.0.1").value().with_port(pick(random));
    auto listener = listen_on(endpoint);
    if (!listener.ok()) continue;
    endpoints.push_back(endpoint);
    held.push_back(std::move(*listener));
  }
  return endpoints;
}

/// A job of pretended hosts, alike in their ranks, whose ranks are threads.
class TreeJob {
 public:
  TreeJob(int hosts, int ranks)
      : hosts_(hosts), ranks_(ranks), endpoints_(free_endpoints(static_cast<std::size_t>(hosts))) {}

  [[nodiscard]] int size() const noexcept { return hosts_ * ranks_; }
  [[nodiscard]] const Endpoint& endpoint(int host) const {
    return endpoints_[static_cast<std::size_t>(host)];
  }

  [[nodiscard]] Identity identity(int rank) const {
    Identity identity;
    identity.purpose = Purpose::kRendezvous;
    identity.rank = rank;
    identity.size = size();
    identity.context = id_;
    identity.keys = Keys::derive(secrets.contains(rank) ? secrets.at(rank) : secret_).value();
    identity.self = {versions.contains(rank) ? versions.at(rank) : "1",
                     fmt::format("node{}", rank / ranks_), fmt::format("identity{}", rank / ranks_),
                     fmt::format("10.0.0.1:{}", rank), ::getpid()};
    identity.encryption = encryption;
    return identity;
  }

  [[nodiscard]] RendezvousPlace place(int rank) const {
    Config config;
    config.rank = rank;
    config.size = size();
    const int host = rank / ranks_;
    config.rendezvous_tree = fmt::format("{}x{} {}", ranks_, hosts_, endpoint(host).text());
    if (host > 0) config.rendezvous_tree += " " + endpoint(leader_above(host)).text();
    return place_in_rendezvous(config).value().value();
  }

  [[nodiscard]] TreeResult meet(int rank, const CancelSource* cancel = nullptr) const {
    const Identity self = identity(rank);
    const RendezvousPlace where = place(rank);
    const Duration time = timeouts.contains(rank) ? timeouts.at(rank) : std::chrono::seconds(30);
    return meet_by_tree({.identity = &self, .place = &where, .timeout = time, .cancel = cancel});
  }

  /// All ranks but `absent` meet; what each returned.
  [[nodiscard]] std::map<int, TreeResult> meet_all(const std::vector<int>& absent = {},
                                                   const CancelSource* cancel = nullptr) const {
    std::vector<std::optional<TreeResult>> results(static_cast<std::size_t>(size()));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      if (std::ranges::find(absent, rank) != absent.end()) continue;
      threads.emplace_back(
          [&, rank] { results[static_cast<std::size_t>(rank)].emplace(meet(rank, cancel)); });
    }
    for (std::thread& thread : threads) thread.join();
    std::map<int, TreeResult> all;
    for (int rank = 0; rank < size(); ++rank) {
      auto& result = results[static_cast<std::size_t>(rank)];
      if (result) all.emplace(rank, std::move(*result));
    }
    return all;
  }

  Encryption encryption = Encryption::kOff;
  std::map<int, std::string> versions;
  std::map<int, Secret> secrets;
  std::map<int, Duration> timeouts;

 private:
  const int hosts_;
  const int ranks_;
  const std::vector<Endpoint> endpoints_;
  const std::string id_ = unique_job_id();
  const Secret secret_ = Secret::random().value();
};

/// A leader that connects, says so, and is gone soon.
void come_and_go(const TreeJob& job, int rank) {
  const auto identity = std::make_shared<const Identity>(job.identity(rank));
  const RendezvousPlace place = job.place(rank);
  Connector connector(*identity);
  connector.dial({.identity = identity,
                  .rank = place.parent,
                  .endpoints = {place.parent_at},
                  .deadline = now() + std::chrono::seconds(20)});
  while (true) {
    auto event = connector.next(now() + std::chrono::seconds(20));
    REQUIRE(event.ok());
    REQUIRE(event->kind != ConnectorEvent::Kind::kTimeout);
    if (event->kind != ConnectorEvent::Kind::kAdmitted) continue;
    CHECK(send_message(event->stream, {}, now() + std::chrono::seconds(2)).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return;
  }
}

bool mentions(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

TEST_CASE("TreeRendezvous: all ranks of many hosts learn one roster, each by O(log N) messages") {
  const TreeJob job(64, 2);
  const auto met = job.meet_all();
  REQUIRE(met.size() == 128);
  const double most = 7 * std::log2(job.size());
  for (const auto& entry : met) {
    const int rank = entry.first;
    const TreeResult& result = entry.second;
    CAPTURE(rank);
    REQUIRE(result.roster.ok());
    CHECK(result.messages <= most);
    REQUIRE(result.roster->size() == 128);
    for (const auto& met_rank : *result.roster) {
      const int other = met_rank.first;
      CHECK(met_rank.second.address == fmt::format("10.0.0.1:{}", other));
      CHECK(met_rank.second.host_identity == fmt::format("identity{}", other / 2));
    }
  }
}

TEST_CASE("TreeRendezvous: jobs of every shape meet, encrypted too") {
  for (const int hosts : {2, 3, 9, 10, 12}) {
    for (const int ranks : {1, 3}) {
      for (const Encryption encryption : {Encryption::kOff, Encryption::kOn}) {
        CAPTURE(hosts);
        CAPTURE(ranks);
        TreeJob job(hosts, ranks);
        job.encryption = encryption;
        for (const auto& entry : job.meet_all()) {
          const int rank = entry.first;
          const TreeResult& result = entry.second;
          CAPTURE(rank);
          REQUIRE(result.roster.ok());
          CHECK(static_cast<int>(result.roster->size()) == hosts * ranks);
        }
      }
    }
  }
}

TEST_CASE("TreeRendezvous: a rank that does not come is named on all that came") {
  TreeJob job(10, 2);
  constexpr int kMissing = 19;  // of the host below host 1
  for (int rank = 0; rank < job.size(); ++rank) job.timeouts[rank] = std::chrono::seconds(20);
  job.timeouts[0] = std::chrono::milliseconds(500);  // it asks the others what they lack
  for (const auto& entry : job.meet_all({kMissing})) {
    const int rank = entry.first;
    const TreeResult& result = entry.second;
    CAPTURE(rank);
    CHECK(result.roster.status().code() == Code::kTimeout);
    CHECK(result.roster.status().message() == "1 of 20 ranks did not come in time: rank 19");
    REQUIRE(result.roster.status().failed_rank());
    CHECK(result.roster.status().failed_rank()->rank == kMissing);
  }
}

TEST_CASE("TreeRendezvous: of a host that is missing the leader is named, and who is behind it") {
  TreeJob job(10, 2);
  for (int rank = 0; rank < job.size(); ++rank) job.timeouts[rank] = std::chrono::milliseconds(500);
  for (const auto& entry : job.meet_all({2, 3})) {
    const int rank = entry.first;
    const TreeResult& result = entry.second;
    CAPTURE(rank);
    CHECK(result.roster.status().code() == Code::kTimeout);
    if (rank < 18) {
      CHECK(result.roster.status().message() ==
            "1 of 20 ranks did not come in time: rank 2; nothing was heard of ranks that meet "
            "through it: 3, 18, 19");
    } else {  // their leader's way up is gone
      CHECK(mentions(result.roster.status(), "rank 18 could not reach rank 2 at "));
    }
  }
}

TEST_CASE("TreeRendezvous: a rank with another secret is named on all that came") {
  TreeJob job(10, 1);
  job.secrets[9] = Secret::random().value();  // below rank 1
  for (int rank = 0; rank < job.size(); ++rank) job.timeouts[rank] = std::chrono::seconds(20);
  job.timeouts[0] = std::chrono::milliseconds(500);
  job.timeouts[9] = std::chrono::milliseconds(100);
  for (const auto& entry : job.meet_all()) {
    const int rank = entry.first;
    const Status& status = entry.second.roster.status();
    CAPTURE(rank);
    if (rank == 9) {
      CHECK_FALSE(status.ok());
      continue;
    }
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(mentions(status, "1 of 10 ranks did not come in time: rank 9; rank 9 came with another"));
  }
}

TEST_CASE("TreeRendezvous: without rank 0 the others say that they could not reach it") {
  TreeJob job(3, 1);
  for (int rank = 0; rank < job.size(); ++rank) job.timeouts[rank] = std::chrono::milliseconds(300);
  for (const auto& entry : job.meet_all({0})) {
    const int rank = entry.first;
    const TreeResult& result = entry.second;
    CHECK(
        mentions(result.roster.status(), fmt::format("rank {} could not reach rank 0 at ", rank)));
    CHECK(result.roster.status().code() == Code::kTimeout);
  }
}

TEST_CASE("TreeRendezvous: another version is refused on all ranks that are connected") {
  TreeJob job(10, 1);
  job.versions[9] = "2";  // below rank 1
  for (int rank = 0; rank < job.size(); ++rank) job.timeouts[rank] = std::chrono::seconds(3);
  for (const auto& entry : job.meet_all()) {
    const int rank = entry.first;
    const TreeResult& result = entry.second;
    CAPTURE(rank);
    // One that comes later finds the others gone.
    if (result.roster.status().code() == Code::kTimeout) continue;
    CHECK(result.roster.status().code() == Code::kVersionMismatch);
    CHECK(mentions(result.roster.status(),
                   "rank 1 on node1 runs Ronde 1, but rank 9 on node9 runs "
                   "Ronde 2"));
  }
}

TEST_CASE("TreeRendezvous: a leader that dies meanwhile is named on the other ranks") {
  TreeJob job(10, 2);
  for (int rank = 1; rank < job.size(); ++rank) job.timeouts[rank] = std::chrono::seconds(5);
  std::thread dies([&] { come_and_go(job, 2); });
  const auto met = job.meet_all({2});
  dies.join();
  CHECK(met.at(0).roster.status().code() == Code::kRankFailure);
  for (const auto& entry : met) {
    const int rank = entry.first;
    const TreeResult& result = entry.second;
    CAPTURE(rank);
    const Status& status = result.roster.status();
    if (status.code() == Code::kTimeout) {  // it meets through the dead one, or came too late
      CHECK(mentions(status, " could not reach rank "));
      continue;
    }
    CHECK(status.code() == Code::kRankFailure);
    CHECK(mentions(status, "rank 2 (pid "));
    CHECK(mentions(status, "went away during the rendezvous"));
    REQUIRE(status.failed_rank());
    CHECK(status.failed_rank()->rank == 2);
  }
}

TEST_CASE("TreeRendezvous: a rank whose leader dies meanwhile says so") {
  const TreeJob job(2, 2);
  std::optional<TreeResult> met;
  std::thread waits([&] { met.emplace(job.meet(3)); });
  {
    const Identity identity = job.identity(2);
    Connector connector(identity);
    connector.listen(listen_on(job.endpoint(1)).value());
    const auto event = connector.next(now() + std::chrono::seconds(20));
    REQUIRE(event.ok());
    CHECK(event->kind == ConnectorEvent::Kind::kAdmitted);
  }
  waits.join();
  CHECK(met->roster.status().code() == Code::kRankFailure);
  CHECK(mentions(met->roster.status(), "rank 2 (pid "));
}

TEST_CASE("TreeRendezvous: two processes with the same rank are an error that names both") {
  TreeJob job(3, 1);
  job.timeouts[1] = std::chrono::seconds(1);
  std::thread first([&] { come_and_go(job, 1); });
  std::thread second([&] { CHECK_FALSE(job.meet(1).roster.ok()); });
  const Status status = job.meet(0).roster.status();  // rank 2 does not come
  first.join();
  second.join();
  // The first may have gone before the second came.
  if (status.code() != Code::kRankFailure) CHECK(mentions(status, "two processes say they are"));
}

TEST_CASE("TreeRendezvous: an address that is not of this host is an error on all") {
  const TreeJob job(2, 1);
  Identity identity = job.identity(1);
  RendezvousPlace place = job.place(1);
  place.own = numeric_host("192.0.2.1").value().with_port(4000);
  place.children.push_back({0, {}});  // so that it listens
  std::optional<TreeResult> other;
  std::thread waits([&] { other.emplace(job.meet(0)); });
  const TreeResult met = meet_by_tree({.identity = &identity,
                                       .place = &place,
                                       .timeout = std::chrono::seconds(20),
                                       .cancel = nullptr});
  waits.join();
  CHECK(mentions(met.roster.status(), "192.0.2.1:4000"));
  CHECK(mentions(other->roster.status(), "192.0.2.1:4000"));
}

TEST_CASE("TreeRendezvous: whoever has no secret does not disturb it") {
  const TreeJob job(3, 2);
  std::vector<std::thread> peers;
  peers.reserve(3);
  std::atomic<bool> over = false;
  for (int host = 0; host < 3; ++host) {
    peers.emplace_back([&, host] {
      while (!over) {
        auto socket = start_connect({job.endpoint(host)});
        ::usleep(500);
        if (!socket.ok()) continue;
        Stream stream(std::move(*socket));
        const std::string garbage(200, 'x');
        (void)send_all(stream, as_bytes(garbage), now()).ok();
      }
    });
  }
  const auto met = job.meet_all();
  over = true;
  for (std::thread& thread : peers) thread.join();
  for (const auto& entry : met) CHECK(entry.second.roster.ok());
}

TEST_CASE("TreeRendezvous: all that are told to stop while a leader is missing do so at once") {
  TreeJob job(12, 2);
  const FileDescriptor event(::eventfd(0, EFD_CLOEXEC));
  std::atomic<bool> over = false;
  const CancelSource cancel{event.get(),
                            [&] { return over ? Status(Code::kAborted, "void") : Status(); }};
  std::thread stops([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    over = true;
    CHECK(::eventfd_write(event.get(), 1) == 0);
  });
  const TimePoint began = now();
  const auto met = job.meet_all({2, 3}, &cancel);
  CHECK(now() - began < std::chrono::seconds(10));
  stops.join();
  CHECK(met.size() == 22);
  for (const auto& entry : met) CHECK_FALSE(entry.second.roster.ok());
}

TEST_CASE("TreeRendezvous: a rank that is told to stop does so at once") {
  const TreeJob job(2, 1);
  const FileDescriptor event(::eventfd(1, EFD_CLOEXEC));
  const CancelSource cancel{event.get(), [] { return Status(Code::kAborted, "stop"); }};
  const TimePoint began = now();
  CHECK_FALSE(job.meet(1, &cancel).roster.ok());
  CHECK_FALSE(job.meet(0, &cancel).roster.ok());
  CHECK(now() - began < std::chrono::seconds(5));
}

}  // namespace
}  // namespace ronde::net
