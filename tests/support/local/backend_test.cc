// The local data plane behind its port, and what the death of a rank does to it.
#include <doctest/doctest.h>

#include <thread>

#include "core/base/bytes.h"
#include "tests/support/local/factory.h"
#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

constexpr auto kPause = std::chrono::milliseconds(5);

std::unique_ptr<Communicator> open_group(const std::shared_ptr<LocalHub>& hub,
                                         const test::LocalJob& job, int rank) {
  const auto backend = create_local_backend(hub, rank);
  CHECK(backend->viable(job.group(rank)).ok());
  auto group = backend->open(job.group(rank), *job.exchange(rank));
  REQUIRE(group.ok());
  return std::move(group).value();
}

}  // namespace

TEST_CASE("local backend: offers a transport and nothing natively") {
  const auto hub = create_local_hub(1);
  const test::LocalJob job(1);
  const auto backend = create_local_backend(hub, 0);
  CHECK(backend->name() == "local");
  const auto group = open_group(hub, job, 0);
  CHECK_FALSE(group->traits().native_first);
  CHECK_FALSE(group->traits().supports.has(Collective::kBarrier, DType::kFloat32));
  CHECK(group->run({}, kNoStream, job.abort()).code() == Code::kUnsupported);
  CHECK(group->transport()->size() == 1);
  CHECK(group->allocate(64, kNoStream) == nullptr);
}

TEST_CASE("local backend: ranks outside the process and wrong positions are refused") {
  const auto hub = create_local_hub(2);
  const test::LocalJob job(3);
  const auto backend = create_local_backend(hub, 0);
  CHECK(backend->viable(job.group(0)).message() == "rank 2 is no thread of this process");
  const test::LocalJob fits(2);
  CHECK(backend->open(fits.group(1), *fits.exchange(1)).status().code() == Code::kInvalidArgument);
}

TEST_CASE("local backend: ranks that disagree about a group's members are told") {
  const auto hub = create_local_hub(2);
  const test::LocalJob job(2);
  const auto group = open_group(hub, job, 0);
  GroupSpec other = job.group(1);
  other.ranks = {1};
  other.rank = 0;
  const auto backend = create_local_backend(hub, 1);
  CHECK(backend->open(other, *job.exchange(1)).status().code() == Code::kMismatch);
}

TEST_CASE("local backend: a token goes round the ring, through two groups of the same ranks") {
  constexpr int kRanks = 4;
  const auto hub = create_local_hub(kRanks);
  const test::LocalJob first(kRanks);
  const test::LocalJob second(kRanks);
  test::run_ranks(kRanks, [&](int rank) {
    for (const test::LocalJob* job : {&first, &second}) {
      const auto group = open_group(hub, *job, rank);
      Transport& transport = *group->transport();
      int hops = 0;
      const std::span<int> view(&hops, 1);
      if (rank > 0) {
        const auto id = transport.recv(rank - 1, std::as_writable_bytes(view));
        REQUIRE(transport.wait(id.value(), job->abort()).ok());
      }
      CHECK(hops == rank);
      ++hops;
      if (rank + 1 < kRanks) {
        const auto id = transport.send(rank + 1, std::as_bytes(view));
        REQUIRE(transport.wait(id.value(), job->abort()).ok());
      }
    }
  });
}

TEST_CASE("local backend: the death of a rank ends the waits of all others, naming it") {
  constexpr int kRanks = 3;
  const auto hub = create_local_hub(kRanks);
  const test::LocalJob job(kRanks);
  test::run_ranks(kRanks, [&](int rank) {
    const auto group = open_group(hub, job, rank);
    if (rank == 2) {
      std::this_thread::sleep_for(kPause);
      hub->kill(2);
    }
    int value = 0;
    const auto id = group->transport()->recv((rank + 1) % kRanks,
                                             std::as_writable_bytes(std::span<int>(&value, 1)));
    const Status status = group->transport()->wait(id.value(), job.abort());
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.message() == "rank 2 died");
  });
}

TEST_CASE("local backend: a group with a dead rank is broken from the start") {
  const auto hub = create_local_hub(2);
  const test::LocalJob job(2);
  hub->kill(1);
  const auto group = open_group(hub, job, 0);
  const auto id = group->transport()->recv(1, {});
  CHECK(group->transport()->wait(id.value(), job.abort()).message() == "rank 1 died");
}

TEST_CASE("LocalExchange: values come back by rank, round by round, and waits can be aborted") {
  const test::LocalJob job(3);
  test::run_ranks(3, [&](int rank) {
    const auto exchange = job.exchange(rank);
    for (const std::string prefix : {"a", "b"}) {
      const auto all = exchange->allgather(prefix + std::to_string(rank));
      REQUIRE(all.ok());
      CHECK(*all == std::vector<std::string>{prefix + "0", prefix + "1", prefix + "2"});
    }
    CHECK(exchange->allgather(std::string(65'537, 'x')).status().code() == Code::kInvalidArgument);
    if (rank == 0) {
      job.abort().abort(Status(Code::kAborted, "enough"));
    } else {
      CHECK(exchange->allgather("c").status().message() == "enough");
    }
  });
}

}  // namespace ronde
