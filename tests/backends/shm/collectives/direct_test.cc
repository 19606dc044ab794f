// Ways to move the same data: all must give the same values, and reductions the same bits.
#include "backends/shm/collectives/direct.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/backends/shm/shm_fixture.h"
#include "tests/backends/shm/soup.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

constexpr ShmOptions kSingleCopy{.single_copy = SingleCopy::kAlways};
constexpr ShmOptions kStaged{.single_copy = SingleCopy::kNever, .arenas = false};

void random_work(int ranks, const ShmOptions& options, unsigned seed) {
  const LocalJob job(ranks);
  run_ranks(ranks, [&](int rank) {
    const auto group = open_shm(job, rank, options);
    REQUIRE(group != nullptr);
    std::mt19937 random(seed);
    for (int i = 0; i < rounds(60); ++i) serve(*group, cook(random, ranks, 400'000), ranks, rank);
  });
}

TEST_CASE("random work by single copy gives the right values") {
  for (const int ranks : {1, 2, 3, 5}) {
    random_work(ranks, kSingleCopy, 3000 + static_cast<unsigned>(ranks));
  }
}

/// A rank's tensors for one reduction: in its own memory or in the group's.
struct Tensors {
  std::vector<std::shared_ptr<std::byte>> owners;
  std::vector<Segment> segments;

  void add(Communicator& group, bool shared, std::size_t bytes, bool in_place) {
    std::byte* const in = memory(group, shared, bytes);
    segments.push_back(
        {.in = in, .out = in_place ? in : memory(group, shared, bytes), .bytes = bytes});
  }

 private:
  std::byte* memory(Communicator& group, bool shared, std::size_t bytes) {
    owners.push_back(shared ? group.allocate(bytes, kNoStream)
                            : std::shared_ptr<std::byte>(new std::byte[bytes],
                                                         std::default_delete<std::byte[]>()));
    REQUIRE(owners.back() != nullptr);
    return owners.back().get();
  }
};

void fill(const Tensors& tensors, int rank) {
  std::mt19937 random(77U + static_cast<unsigned>(rank));
  std::uniform_real_distribution<float> values(-1, 1);
  for (const Segment& segment : tensors.segments) {
    for (std::size_t at = 0; at < segment.bytes; at += sizeof(float)) {
      const float value = values(random);
      std::memcpy(const_cast<std::byte*>(segment.in) + at, &value, sizeof value);
    }
  }
}

std::string result_of(const Tensors& tensors) {
  std::string bits;
  for (const Segment& segment : tensors.segments) {
    bits.append(reinterpret_cast<const char*>(segment.out), segment.bytes);
  }
  return bits;
}

/// The bits that `rank` gets; ranks from `first_shared` on hold their tensors in shared memory.
std::string reduced(const LocalJob& job, int rank, const ShmOptions& options, int first_shared,
                    bool in_place) {
  const auto group = open_shm(job, rank, options);
  REQUIRE(group != nullptr);
  Tensors tensors;
  for (const std::size_t count : {3U, 700'000U, 1U, 450'001U}) {
    tensors.add(*group, rank >= first_shared, count * sizeof(float), in_place);
  }
  fill(tensors, rank);
  REQUIRE(
      group->run(allreduce_of(tensors.segments, DType::kFloat32), kNoStream, AbortToken()).ok());
  return result_of(tensors);
}

std::vector<std::string> reduce_on_all(int ranks, const ShmOptions& options, int first_shared,
                                       bool in_place) {
  const LocalJob job(ranks);
  std::vector<std::string> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    results[static_cast<std::size_t>(rank)] = reduced(job, rank, options, first_shared, in_place);
  });
  return results;
}

TEST_CASE("staged, by single copy, in shared memory or in both: the bits are the same") {
  for (const int ranks : kUnderTsan ? std::vector<int>{3} : std::vector<int>{2, 3, 4}) {
    for (const bool in_place : {false, true}) {
      const auto expected = reduce_on_all(ranks, kStaged, ranks, in_place);
      CHECK((expected.front() == expected.back()));
      CHECK((reduce_on_all(ranks, kSingleCopy, ranks, in_place) == expected));
      for (const int first_shared : {0, 1}) {
        CHECK((reduce_on_all(ranks, kSingleCopy, first_shared, in_place) == expected));
        CHECK((reduce_on_all(ranks, {}, first_shared, in_place) == expected));
      }
    }
  }
}

/// Uneven parts; what two ranks send each other is as large.
std::size_t part_count(std::size_t from, std::size_t to) { return 90'000 + 1'000 * (from + to); }

/// The result of an alltoall or a reduce_scatter on `rank`.
std::string moved(const LocalJob& job, int rank, const ShmOptions& options, Collective kind,
                  int first_shared, bool in_place) {
  const auto group = open_shm(job, rank, options);
  REQUIRE(group != nullptr);
  const auto ranks = static_cast<std::size_t>(job.size());
  const auto me = static_cast<std::size_t>(rank);
  const bool exchange = kind == Collective::kAlltoall;
  std::vector<std::size_t> sends;
  std::vector<std::size_t> receives;
  for (std::size_t r = 0; r < ranks; ++r) {
    sends.push_back(sizeof(float) * part_count(exchange ? me : 0, r));
    receives.push_back(sizeof(float) * part_count(r, me));
  }
  const auto sum = [](const std::vector<std::size_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  };
  const std::size_t out_bytes = exchange ? sum(receives) : sends[me];
  Tensors tensors;
  tensors.add(*group, rank >= first_shared, std::max(sum(sends), out_bytes), in_place);
  fill(tensors, rank);
  Segment segment = tensors.segments[0];
  segment.bytes = sum(sends);
  Work work = allreduce_of({&segment, 1}, DType::kFloat32);
  work.kind = kind;
  work.chunk_bytes = work.send_bytes = sends;
  work.recv_bytes = receives;
  REQUIRE(group->run(work, kNoStream, AbortToken()).ok());
  return {reinterpret_cast<const char*>(segment.out), out_bytes};
}

std::vector<std::string> move_on_all(int ranks, const ShmOptions& options, Collective kind,
                                     int first_shared, bool in_place) {
  const LocalJob job(ranks);
  std::vector<std::string> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    results[static_cast<std::size_t>(rank)] =
        moved(job, rank, options, kind, first_shared, in_place);
  });
  return results;
}

TEST_CASE("alltoall and reduce_scatter give the same bits whichever way they go") {
  for (const Collective kind : {Collective::kAlltoall, Collective::kReduceScatter}) {
    for (const int ranks : {2, 3}) {
      const auto expected = move_on_all(ranks, kStaged, kind, ranks, false);
      CHECK((move_on_all(ranks, kStaged, kind, ranks, true) == expected));
      for (const int first_shared : {0, 1, ranks}) {
        for (const bool in_place : {false, true}) {
          CHECK((move_on_all(ranks, {}, kind, first_shared, in_place) == expected));
          CHECK((move_on_all(ranks, kSingleCopy, kind, first_shared, in_place) == expected));
        }
      }
    }
  }
}

/// The result of a broadcast of uneven segments from rank 1 at `rank`.
std::string spread(const LocalJob& job, int rank, const ShmOptions& options, int first_shared,
                   bool in_place) {
  const auto group = open_shm(job, rank, options);
  REQUIRE(group != nullptr);
  Tensors tensors;
  for (const std::size_t count : {3U, 300'001U, 0U, 170'000U}) {
    tensors.add(*group, rank >= first_shared, count * sizeof(float), in_place || rank != 1);
  }
  fill(tensors, rank);
  Work work = allreduce_of(tensors.segments, DType::kFloat32);
  work.kind = Collective::kBroadcast;
  work.root = 1;
  REQUIRE(group->run(work, kNoStream, AbortToken()).ok());
  return result_of(tensors);
}

TEST_CASE("a broadcast gives the same bits for any copying rank and source") {
  for (const int ranks : {2, 3}) {
    for (const bool in_place : {false, true}) {
      for (const int first_shared : {0, 1, 2, ranks}) {
        for (const ShmOptions& options : {kStaged, kSingleCopy, ShmOptions{}}) {
          const LocalJob job(ranks);
          std::vector<std::string> results(static_cast<std::size_t>(ranks));
          run_ranks(ranks, [&](int rank) {
            const int shared = options.arenas ? first_shared : ranks;
            results[static_cast<std::size_t>(rank)] = spread(job, rank, options, shared, in_place);
          });
          for (const std::string& result : results) CHECK((result == results[1]));
        }
      }
    }
  }
}

TEST_CASE("one rank that forbids single copy or arenas decides for all") {
  const LocalJob job(3);
  std::vector<std::string> results(3);
  run_ranks(3, [&](int rank) {
    const ShmOptions options = rank == 1 ? kStaged : kSingleCopy;
    results[static_cast<std::size_t>(rank)] = reduced(job, rank, options, 3, false);
  });
  CHECK((results == reduce_on_all(3, kStaged, 3, false)));
}

TEST_CASE("without arenas there is no shared memory for tensors") {
  const LocalJob job(1);
  CHECK(open_shm(job, 0, kStaged)->allocate(100, kNoStream) == nullptr);
  CHECK(open_shm(job, 0)->allocate(100, kNoStream) != nullptr);
}

TEST_CASE("an abort ends a reduction by single copy whose peers never come") {
  const LocalJob job(2);
  AbortToken call;
  run_ranks(2, [&](int rank) {
    const auto group = open_shm(job, rank, kSingleCopy);
    REQUIRE(group != nullptr);
    if (rank == 1) return call.abort(Status(Code::kRankFailure, "rank 1 died"));
    Values values(1'000'000);
    auto* const at = reinterpret_cast<std::byte*>(values.data());
    const Segment segment{.in = at, .out = at, .bytes = values.size() * sizeof(Value)};
    const Status status = group->run(allreduce_of({&segment, 1}, DType::kInt32), kNoStream, call);
    CHECK(status.message() == "rank 1 died");
  });
}

}  // namespace
}  // namespace ronde::test
