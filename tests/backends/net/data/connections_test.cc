// The connections of a rank, counted in real processes.
#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/os/file_descriptor.h"
#include "core/ports/backend.h"
#include "tests/backends/net/processes.h"
#include "tests/backends/net/test_job.h"

namespace ronde::net {
namespace {

constexpr int kRanks = 8;

/// Open sockets of this process.
int sockets() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // as the descriptor of this folder
    if (read_symlink(entry.path(), gone).native().starts_with("socket:")) ++count;
  }
  return count;
}

/// Groups of the tcp backend need none.
class NoExchange final : public Exchange {
 public:
  Result<std::vector<std::string>> allgather(std::string_view) override {
    return Status(Code::kUnsupported, "no exchange");
  }
};

/// A rank of a job and its group of all ranks.
struct Member {
  Member(const TestJob& job, int rank) : Member(job, job.config(rank)) {}
  Member(const TestJob& job, const Config& config) : link(job.connect(config).value()) {
    std::vector<int> all(static_cast<std::size_t>(job.size()));
    std::iota(all.begin(), all.end(), 0);
    communicator = open(5, all, config.rank);
  }
  [[nodiscard]] Transport& transport() const { return *communicator->transport(); }
  /// A group in which this rank has the position `rank`.
  [[nodiscard]] std::unique_ptr<Communicator> open(std::uint64_t key, std::vector<int> ranks,
                                                   int rank) const {
    GroupSpec group;
    group.key = key;
    group.ranks = std::move(ranks);
    group.rank = rank;
    group.topology = &link.channel->topology();
    group.abort = abort;
    NoExchange none;
    return link.tcp->open(group, none).value();
  }

  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  JobLink link;
  std::unique_ptr<Communicator> communicator;
};

/// Waits until all ranks are there; beside their connections.
class Barrier {
 public:
  explicit Barrier(unsigned ranks)
      : barrier_(static_cast<pthread_barrier_t*>(::mmap(nullptr, sizeof(pthread_barrier_t),
                                                        PROT_READ | PROT_WRITE,
                                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    pthread_barrierattr_t shared;
    ::pthread_barrierattr_init(&shared);
    ::pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    ::pthread_barrier_init(barrier_, &shared, ranks);
  }
  ~Barrier() { ::munmap(barrier_, sizeof(pthread_barrier_t)); }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  void wait() const { ::pthread_barrier_wait(barrier_); }

 private:
  pthread_barrier_t* const barrier_;
};

/// One number to `to`, one from `from`.
Status swap_numbers(const Member& member, int to, int from) {
  const int mine = member.transport().rank();
  int theirs = -1;
  const auto in = member.transport().recv(from, std::as_writable_bytes(std::span(&theirs, 1)));
  const auto out = member.transport().send(to, std::as_bytes(std::span(&mine, 1)));
  if (!in.ok() || !out.ok()) return in.ok() ? out.status() : in.status();
  RONDE_RETURN_IF_ERROR(member.transport().wait(*in, *member.abort));
  RONDE_RETURN_IF_ERROR(member.transport().wait(*out, *member.abort));
  return theirs == from ? Status() : Status(Code::kInternal, "another rank's number");
}

TEST_CASE("a rank has connections with the ranks that it exchanges data with, and no others") {
  const TestJob job(kRanks, Layout::kEachAlone);
  const Barrier all(kRanks);
  const auto codes = run_ranks(kRanks, [&](int rank) {
    const Member member(job, rank);
    const int before = sockets();
    all.wait();
    int wrong = 0;
    const auto swap_with = [&](int step) {
      wrong += swap_numbers(member, (rank + step) % kRanks, (rank + kRanks - step) % kRanks).ok()
                   ? 0
                   : 1;
    };
    for (int turn = 0; turn < 3; ++turn) swap_with(1);
    all.wait();
    const int in_a_ring = sockets() - before;
    all.wait();
    for (int step = 1; step < kRanks; ++step) swap_with(step);
    const int with_all = sockets() - before;
    all.wait();
    RONDE_CHILD_REQUIRE(wrong == 0);
    RONDE_CHILD_REQUIRE(in_a_ring == 2);
    RONDE_CHILD_REQUIRE(with_all == kRanks - 1);
    return 0;
  });
  CHECK(codes == all_good(kRanks));
}

/// Threads of this process with this name.
int threads_named(const std::string& wanted) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == wanted) ++count;
  }
  return count;
}

TEST_CASE("one thread makes all connections of a rank, inside its host too, and heals them") {
  const TestJob job(4, Layout::kTwoHosts);
  const auto codes = run_ranks(4, [&](int rank) {
    Config config = job.config(rank);
    config.reconnect_limit = std::chrono::seconds(20);
    const Member member(job, config);
    const auto others = member.open(6, {0, 1, 2, 3}, rank);
    const auto inside = member.open(7, {rank % 2, rank % 2 + 2}, rank / 2);
    for (const int step : {1, 2, 3})
      RONDE_CHILD_REQUIRE(swap_numbers(member, (rank + step) % 4, (rank + 4 - step) % 4).ok());
    std::byte byte{1};
    Transport& near = *inside->transport();
    const auto in = near.recv(1 - near.rank(), {&byte, 1});
    const auto out = near.send(1 - near.rank(), {&byte, 1});
    RONDE_CHILD_REQUIRE(near.wait(*in, *member.abort).ok());
    RONDE_CHILD_REQUIRE(near.wait(*out, *member.abort).ok());
    RONDE_CHILD_REQUIRE(threads_named("ronde-connect") == 1);
    return 0;
  });
  CHECK(codes == all_good(4));
}

TEST_CASE("a rank that computes is connected with meanwhile") {
  const TestJob job(2, Layout::kEachAlone);
  const Pipe connected = make_pipe().value();
  const auto codes = run_ranks(2, [&](int rank) {
    const Member member(job, rank);
    std::byte byte{1};
    if (rank == 1) {
      const auto id = member.transport().send(0, {&byte, 1});
      RONDE_CHILD_REQUIRE(member.transport().wait(*id, *member.abort).ok());
      RONDE_CHILD_REQUIRE(::write(connected.write.get(), "x", 1) == 1);
      RONDE_CHILD_REQUIRE(swap_numbers(member, 0, 0).ok());
      return 0;
    }
    char done = 0;  // rank 0 calls nothing of its group until rank 1's transfer is done
    RONDE_CHILD_REQUIRE(::read(connected.read.get(), &done, 1) == 1);
    const auto id = member.transport().recv(1, {&byte, 1});
    RONDE_CHILD_REQUIRE(member.transport().wait(*id, *member.abort).ok());
    RONDE_CHILD_REQUIRE(swap_numbers(member, 1, 1).ok());
    return 0;
  });
  CHECK(codes == all_good(2));
}

}  // namespace
}  // namespace ronde::net
