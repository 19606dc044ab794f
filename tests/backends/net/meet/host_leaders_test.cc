// Ranks of many hosts meet at rank 0 through the leader of each host.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/net/connection/frame.h"
#include "backends/net/connection/stream.h"
#include "backends/net/meet/handover.h"
#include "backends/net/meet/tcp_rendezvous.h"
#include "backends/net/meet/tree_rendezvous.h"
#include "backends/net/mesh/connector.h"
#include "core/base/bytes.h"
#include "core/base/wire_codec.h"
#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

/// A TCP socket with a port of its own, where nobody listens yet.
FileDescriptor bound_socket() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const Endpoint loopback = numeric_host("127.0.0.1").value();
  REQUIRE(::bind(socket.get(), loopback.raw(), loopback.length) == 0);
  return socket;
}

/// A job of pretended hosts, alike in their ranks, whose ranks are threads.
class LeaderJob {
 public:
  LeaderJob(int hosts, int ranks) : hosts_(hosts), ranks_(ranks) {}

  [[nodiscard]] int size() const noexcept { return hosts_ * ranks_; }

  [[nodiscard]] Identity identity(int rank) const {
    Identity identity;
    identity.purpose = Purpose::kRendezvous;
    identity.rank = rank;
    identity.size = size();
    identity.context = id_;
    const int host = rank / ranks_;
    identity.self = {versions.contains(rank) ? versions.at(rank) : "1",
                     fmt::format("node{}", host),
                     fmt::format("{} identity{}", id_, host),
                     {},
                     ::getpid()};
    identity.encryption = encryption;
    return identity;
  }

  [[nodiscard]] std::shared_ptr<const Identity> identity_with_keys(int rank) const {
    return identity_with(identity(rank), secret_).value();
  }

  [[nodiscard]] Endpoint leader(int rank) const {
    return leader_endpoint(endpoint_.text(), identity(rank), secret_);
  }

  [[nodiscard]] DialArgs dial_to_rank_0(int rank) const {
    return {.identity = identity_with_keys(rank), .rank = 0, .endpoints = {endpoint_}};
  }

  [[nodiscard]] DialArgs dial_to_leader(int rank) const {
    return {
        .identity = identity_with_keys(rank),
        .endpoints = {leader(rank)},
        .rendezvous = true,
        .read_greeting = [this, rank](std::string_view) -> Result<std::shared_ptr<const Identity>> {
          return identity_with_keys(rank);
        }};
  }

  [[nodiscard]] Result<Roster> visit(int rank, const CancelSource* cancel = nullptr,
                                     int pid = ::getpid()) const {
    Identity self = identity(rank);
    self.self.pid = pid;
    Config config;
    config.rank = rank;
    config.size = size();
    config.job_id = id_;
    config.rendezvous = endpoint_.text();
    config.start_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
    RONDE_ASSIGN_OR_RETURN(RemoteJob job, rendezvous_across_hosts(config, self, secret_, cancel));
    return std::move(job.roster);
  }

  /// Rank 0. Once in a job.
  TreeResult host() {
    const auto self = identity_with_keys(0);
    REQUIRE(::listen(socket_.get(), 1024) == 0);
    std::vector<int> guests(static_cast<std::size_t>(size() - 1));
    std::iota(guests.begin(), guests.end(), 1);
    const RendezvousPlace place = place_of_root(guests);
    return meet_by_tree({.identity = self.get(),
                         .place = &place,
                         .timeout = host_timeout ? *host_timeout : timeout,
                         .cancel = nullptr,
                         .listener = std::move(socket_)});
  }

  /// Returns the results of all ranks but 0 and `absent`. Meanwhile `alongside` runs.
  [[nodiscard]] std::map<int, Result<Roster>> visit_all(const std::function<void()>& alongside,
                                                        const std::vector<int>& absent = {}) const {
    std::map<int, std::future<Result<Roster>>> visits;
    for (int rank = 1; rank < size(); ++rank) {
      if (std::ranges::find(absent, rank) != absent.end()) continue;
      visits[rank] = std::async(std::launch::async, [this, rank] { return visit(rank); });
    }
    alongside();
    std::map<int, Result<Roster>> results;
    for (auto& [rank, result] : visits) results.emplace(rank, result.get());
    return results;
  }

  Encryption encryption = Encryption::kOff;
  std::map<int, std::string> versions;
  Duration timeout = std::chrono::seconds(30);
  std::optional<Duration> host_timeout;

 private:
  const int hosts_;
  const int ranks_;
  const std::string id_ = unique_job_id();
  const Secret secret_ = Secret::random().value();
  FileDescriptor socket_ = bound_socket();
  const Endpoint endpoint_ = local_endpoint(socket_.get()).value();
};

bool says(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

/// True for a rank that found rank 0 gone already, as that had heard of an error.
bool came_too_late(const Status& status) {
  return status.code() == Code::kTimeout && says(status, "could not reach rank 0");
}

/// A connection that is made soon.
ConnectorEvent reach(const DialArgs& args) {
  Connector connector(*args.identity);
  connector.dial(args);
  auto event = connector.next(now() + std::chrono::seconds(20));
  REQUIRE(event.ok());
  REQUIRE(event->kind == ConnectorEvent::Kind::kAdmitted);
  return std::move(*event);
}

void report(Stream& stream, const Roster& roster) {
  const Report message{
      .status = {}, .missing = {}, .unheard = {}, .unproven = {}, .roster = pack(roster)};
  CHECK(send_message(stream, encode_wire<std::string>(message), now() + std::chrono::seconds(2))
            .ok());
}

/// `rank` has come to the leader of its host, which is there soon.
ConnectorEvent come_to_leader(const LeaderJob& job, int rank) {
  ConnectorEvent leader = reach(job.dial_to_leader(rank));
  report(leader.stream, {});
  return leader;
}

TEST_CASE("HostLeaders: rank 0 has one connection a host, and all learn one roster") {
  for (const Encryption encryption : {Encryption::kOff, Encryption::kOn}) {
    LeaderJob job(8, 4);
    job.encryption = encryption;
    std::optional<TreeResult> met;
    const auto others = job.visit_all([&] { met.emplace(job.host()); });
    REQUIRE(met->roster.ok());
    CHECK(met->connections == 8);
    const int introductions = 8;
    const int verdicts = 8;
    const int reports_at_most = 31;  // fewer where ranks come together
    CHECK(met->messages <= introductions + verdicts + reports_at_most);
    REQUIRE(met->roster->size() == 32);
    for (const auto& entry : others) {
      const int rank = entry.first;
      CAPTURE(rank);
      REQUIRE(entry.second.ok());
      REQUIRE(entry.second->size() == 32);
      for (const auto& met_rank : *entry.second) {
        const int other = met_rank.first;
        CHECK(met_rank.second.address.starts_with("127.0.0.1:") == (other != 0));
        CHECK(met_rank.second.host_name == fmt::format("node{}", other / 4));
      }
    }
  }
}

TEST_CASE("HostLeaders: ranks that came before rank 0 are reported together") {
  LeaderJob job(2, 8);
  std::optional<TreeResult> met;
  const auto others = job.visit_all([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // some have come by then
    met.emplace(job.host());
  });
  REQUIRE(met->roster.ok());
  CHECK(met->connections == 2);
  CHECK(met->messages <= 2 + 2 + 15 / 2);  // two introductions and verdicts
  for (const auto& entry : others) CHECK(entry.second.ok());
}

TEST_CASE("HostLeaders: a rank that does not come is named on all that came") {
  LeaderJob job(2, 3);
  job.host_timeout = std::chrono::milliseconds(500);
  std::optional<TreeResult> met;
  const auto others = job.visit_all([&] { met.emplace(job.host()); }, {4});
  CHECK(met->roster.status().message() == "1 of 6 ranks did not come in time: rank 4");
  CHECK(others.size() == 4);
  for (const auto& entry : others) {
    CHECK(entry.second.status().code() == Code::kTimeout);
    CHECK(entry.second.status().message() == met->roster.status().message());
    REQUIRE(entry.second.status().failed_rank());
    CHECK(entry.second.status().failed_rank()->rank == 4);
  }
}

TEST_CASE("HostLeaders: without rank 0 all ranks of a host say who could not reach it") {
  LeaderJob job(2, 3);
  job.timeout = std::chrono::milliseconds(300);
  for (const auto& entry : job.visit_all([] {})) {
    const Status status = entry.second.status();
    CHECK(status.code() == Code::kTimeout);
    CHECK(says(status, "could not reach rank 0 at 127.0.0.1:"));
    CHECK(says(status, "all hosts must reach it"));
    REQUIRE(status.failed_rank());
    CHECK(status.failed_rank()->rank == 0);
  }
}

TEST_CASE("HostLeaders: another version on one rank of a host ends it for all") {
  LeaderJob job(1, 4);
  job.versions[2] = "2";
  job.timeout = std::chrono::seconds(2);
  std::optional<TreeResult> met;
  const auto others = job.visit_all([&] { met.emplace(job.host()); });
  // A rank that comes later finds rank 0 gone, and rank 2 may be the leader.
  CHECK(met->roster.status().code() == Code::kVersionMismatch);
  CHECK(says(met->roster.status(), "rank 2 on node0 runs Ronde 2"));
  CHECK(others.at(2).status().code() == Code::kVersionMismatch);
}

TEST_CASE("HostLeaders: two processes of a host with the same rank are named on all") {
  LeaderJob job(2, 3);
  job.timeout = std::chrono::seconds(2);
  std::optional<TreeResult> met;
  std::thread again([&] { CHECK_FALSE(job.visit(4, nullptr, 1).ok()); });
  const auto others = job.visit_all([&] { met.emplace(job.host()); }, {5});
  again.join();
  CHECK(says(met->roster.status(), "two processes say they are rank 4: pid "));
  const Status status = others.at(1).status();
  CHECK((says(status, "two processes say they are rank 4: pid ") || came_too_late(status)));
}

TEST_CASE("HostLeaders: a rank that dies after it has been reported is named on all") {
  LeaderJob job(2, 3);
  job.timeout = std::chrono::seconds(5);
  std::optional<TreeResult> met;
  std::thread dies([&] {
    const ConnectorEvent leader = come_to_leader(job, 4);
    CHECK((leader.rank == 3 || leader.rank == 5));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // rank 2 is awaited meanwhile
  });
  const auto others = job.visit_all([&] { met.emplace(job.host()); }, {2, 4});
  dies.join();
  CHECK(met->roster.status().code() == Code::kRankFailure);
  for (const auto& entry : others) {
    const Status status = entry.second.status();
    if (came_too_late(status)) continue;
    CHECK(says(status, "rank 4 (pid "));
    CHECK(says(status, "went away during the rendezvous"));
  }
}

TEST_CASE("HostLeaders: a rank that dies before rank 0 is there may be replaced") {
  LeaderJob job(1, 3);
  std::optional<TreeResult> met;
  std::future<Result<Roster>> leader = std::async(std::launch::async, [&] { return job.visit(1); });
  { const ConnectorEvent gone = come_to_leader(job, 2); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the leader sees that it is gone
  std::future<Result<Roster>> second = std::async(std::launch::async, [&] { return job.visit(2); });
  met.emplace(job.host());
  CHECK(met->roster.ok());
  CHECK(leader.get().ok());
  CHECK(second.get().ok());
}

TEST_CASE("HostLeaders: a leader that dies is named by rank 0, and by the ranks behind it") {
  LeaderJob job(2, 3);
  job.timeout = std::chrono::seconds(5);
  auto unix_socket = listen_on(job.leader(3));
  REQUIRE(unix_socket.ok());
  std::optional<TreeResult> met;
  std::thread dies([&] {
    ConnectorEvent up = reach(job.dial_to_rank_0(3));
    const auto local = job.identity_with_keys(3);
    Connector connector(*local, make_greeting(std::nullopt));
    connector.listen(std::move(*unix_socket));
    Roster come;
    std::vector<Stream> members;
    while (members.size() < 2) {
      auto event = connector.next(now() + std::chrono::seconds(20));
      REQUIRE(event.ok());
      REQUIRE(event->kind == ConnectorEvent::Kind::kAdmitted);
      come[event->rank] = event->peer;
      members.push_back(std::move(event->stream));
    }
    report(up.stream, come);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // rank 2 is awaited meanwhile
  });
  const auto others = job.visit_all([&] { met.emplace(job.host()); }, {2, 3});
  dies.join();
  CHECK(others.size() == 3);
  CHECK(met->roster.status().code() == Code::kRankFailure);
  for (const auto& entry : others) {
    const Status status = entry.second.status();
    if (came_too_late(status)) continue;
    CHECK(status.code() == Code::kRankFailure);
    CHECK(says(status, "rank 3 (pid "));
  }
}

TEST_CASE("HostLeaders: a rank whose leader does not answer connects to rank 0 itself") {
  LeaderJob job(2, 2);
  // As of a process that is frozen; the other host's name is taken, but nobody listens.
  const auto frozen = listen_on(job.leader(2));
  REQUIRE(frozen.ok());
  const Endpoint name = job.leader(1);
  const FileDescriptor taken(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(taken.get(), name.raw(), name.length) == 0);
  std::optional<TreeResult> met;
  const auto others = job.visit_all([&] { met.emplace(job.host()); });
  CHECK(met->roster.ok());
  CHECK(met->connections == 3);
  for (const auto& entry : others) CHECK(entry.second.ok());
}

TEST_CASE("HostLeaders: processes without the secret do not disturb it") {
  LeaderJob job(1, 6);
  const Endpoint endpoint = job.leader(1);
  std::atomic<bool> over = false;
  std::thread peers([&] {
    while (!over) {
      auto socket = start_connect({endpoint});
      ::usleep(500);
      if (!socket.ok()) continue;
      Stream stream(std::move(*socket));
      const std::string garbage(200, 'x');
      (void)send_all(stream, as_bytes(garbage), now()).ok();
    }
  });
  std::optional<TreeResult> met;
  const auto others = job.visit_all([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    met.emplace(job.host());
  });
  over = true;
  peers.join();
  CHECK(met->roster.ok());
  for (const auto& entry : others) CHECK(entry.second.ok());
}

TEST_CASE("HostLeaders: ranks that are told to stop do so at once") {
  LeaderJob job(1, 3);
  const FileDescriptor event(::eventfd(0, EFD_CLOEXEC));
  std::atomic<bool> over = false;
  const CancelSource cancel{event.get(),
                            [&] { return over ? Status(Code::kAborted, "void") : Status(); }};
  const TimePoint began = now();
  std::vector<std::future<Result<Roster>>> visits;
  for (const int rank : {1, 2}) {
    visits.push_back(
        std::async(std::launch::async, [&, rank] { return job.visit(rank, &cancel); }));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  over = true;
  CHECK(::eventfd_write(event.get(), 1) == 0);
  for (auto& visit : visits) CHECK_FALSE(visit.get().ok());
  CHECK(now() - began < std::chrono::seconds(5));
}

}  // namespace
}  // namespace ronde::net
