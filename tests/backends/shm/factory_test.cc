#include "backends/shm/factory.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "backends/shm/memory/memory.h"
#include "tests/backends/shm/shm_fixture.h"
#include "tests/backends/shm/soup.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

TEST_CASE("it calls itself shm and serves groups on one host") {
  const auto backend = create_shm_backend(std::make_shared<ScalarKernels>());
  CHECK(backend->name() == "shm");
  CHECK(backend->viable(LocalJob(3).group(1)).ok());
  const LocalJob two_hosts(2, {0, 1});
  const Status status = backend->viable(two_hosts.group(0));
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().find("more than one host") != std::string::npos);
}

/// Changes what one rank announces, as a rank would that failed or lies.
class Meddler final : public Exchange {
 public:
  Meddler(Exchange& inner, int call, std::string instead)
      : inner_(inner), call_(call), instead_(std::move(instead)) {}
  Result<std::vector<std::string>> allgather(std::string_view mine) override {
    return inner_.allgather(call_-- == 0 ? instead_ : mine);
  }

 private:
  Exchange& inner_;
  int call_;
  std::string instead_;
};

TEST_CASE("when one rank cannot, all ranks learn the same") {
  for (const int call : {0, 1}) {
    for (const int guilty : {0, 2}) {
      const LocalJob job(3);
      run_ranks(3, [&](int rank) {
        const auto backend = create_shm_backend(std::make_shared<ScalarKernels>());
        const auto exchange = job.exchange(rank);
        Meddler meddler(*exchange, rank == guilty ? call : -1, "garbage");
        const auto group = backend->open(job.group(rank), meddler);
        REQUIRE_FALSE(group.ok());
        CHECK(group.status().code() == Code::kUnavailable);
      });
    }
  }
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST_CASE("opening and closing groups leaves no descriptor") {
  const auto before = open_files();
  for (int i = 0; i < 20; ++i) {
    const LocalJob job(2);
    run_ranks(2, [&](int rank) { REQUIRE(open_shm(job, rank) != nullptr); });
  }
  CHECK(open_files() == before);
}

/// Exchange between processes: all-gather by one socket pair for each rank and a relay.
class SocketExchange final : public Exchange {
 public:
  SocketExchange(int socket, int ranks) : socket_(socket), ranks_(ranks) {}
  Result<std::vector<std::string>> allgather(std::string_view mine) override {
    if (write(socket_, mine.data(), mine.size()) < 0) return lost();
    std::vector<std::string> all;
    for (int r = 0; r < ranks_; ++r) {
      std::array<char, 65'536> buffer;
      const ssize_t size = read(socket_, buffer.data(), buffer.size());
      if (size <= 0) return lost();
      all.emplace_back(buffer.data(), static_cast<std::size_t>(size));
    }
    return all;
  }

 private:
  static Status lost() { return Status(Code::kRankFailure, "the relay is gone"); }
  int socket_;
  int ranks_;
};

/// Passes `rounds` all-gathers on between the ranks behind `sockets`.
void relay(const std::vector<int>& sockets, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::string> all;
    for (const int socket : sockets) {
      std::array<char, 65'536> buffer;
      const ssize_t size = read(socket, buffer.data(), buffer.size());
      REQUIRE(size > 0);
      all.emplace_back(buffer.data(), static_cast<std::size_t>(size));
    }
    for (const int socket : sockets) {
      for (const std::string& value : all) REQUIRE(write(socket, value.data(), value.size()) > 0);
    }
  }
}

/// A rank that is a process: true where all its values were right.
bool work_in_process(const LocalJob& job, int rank, int socket) {
  const auto backend = create_shm_backend(std::make_shared<ScalarKernels>());
  SocketExchange exchange(socket, job.size());
  const auto group = backend->open(job.group(rank), exchange);
  if (!group.ok()) return false;
  constexpr std::size_t kCount = 200'000;
  for (int i = 0; i < 50; ++i) {
    const std::size_t count = i % 2 == 0 ? 3 : kCount;
    Values values(count, rank + i);
    const Segment segment{.in = reinterpret_cast<std::byte*>(values.data()),
                          .out = reinterpret_cast<std::byte*>(values.data()),
                          .bytes = count * sizeof(Value)};
    if (!(*group)->run(allreduce_of({&segment, 1}, DType::kInt32), kNoStream, AbortToken()).ok())
      return false;
    const int sum = job.size() * (job.size() - 1) / 2 + job.size() * i;
    if (values != Values(count, sum)) return false;
  }
  return true;
}

TEST_CASE("ranks may be processes of their own") {
  constexpr int kRanks = 4;
  const LocalJob job(kRanks);
  std::vector<int> sockets;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::array<int, 2> pair{};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
    const pid_t child = fork();
    if (child == 0) _exit(work_in_process(job, rank, pair[1]) ? 0 : 1);
    close(pair[1]);
    sockets.push_back(pair[0]);
    children.push_back(child);
  }
  relay(sockets, 2);
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  for (const int socket : sockets) close(socket);
}

}  // namespace
}  // namespace ronde::test
