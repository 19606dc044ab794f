#include "backends/shm/group.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "tests/backends/shm/shm_fixture.h"
#include "tests/backends/shm/soup.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

void random_work(int ranks, unsigned seed, int operations, std::size_t largest) {
  const LocalJob job(ranks);
  run_ranks(ranks, [&](int rank) {
    const auto group = open_shm(job, rank);
    REQUIRE(group != nullptr);
    std::mt19937 random(seed);
    for (int i = 0; i < operations; ++i) serve(*group, cook(random, ranks, largest), ranks, rank);
  });
}

TEST_CASE("random small work of all kinds gives the right values") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    random_work(ranks, 1000 + static_cast<unsigned>(ranks), 150, 300);
  }
}

TEST_CASE("random work over many chunks gives the right values") {
  for (const int ranks : {1, 2, 3, 5}) {
    random_work(ranks, 2000 + static_cast<unsigned>(ranks), rounds(60), 400'000);
  }
}

Dish dish_of(std::vector<std::size_t> segments) {
  Dish dish;
  dish.kind = Collective::kAllreduce;
  dish.segments = std::move(segments);
  dish.seed = 5;
  return dish;
}

TEST_CASE("sizes around the borders of slices, chunks and algorithms give the right values") {
  constexpr int kRanks = 3;
  const LocalJob job(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto group = open_shm(job, rank);
    REQUIRE(group != nullptr);
    for (const std::size_t at :
         std::initializer_list<std::size_t>{0, 16, 1024, 16'384, 65'536, 131'072, 1'000'000}) {
      for (const std::size_t count : {at, at + 1, at + 15, at + 2'049}) {
        serve(*group, dish_of({count}), kRanks, rank);
        serve(*group, dish_of({1, count, 0, 7}), kRanks, rank);
      }
    }
  });
}

TEST_CASE("a rank that is late to read a result never finds that of a later round") {
  constexpr int kRanks = 4;
  const LocalJob job(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto group = open_shm(job, rank, {.single_copy = SingleCopy::kNever, .arenas = false});
    REQUIRE(group != nullptr);
    Dish dish = dish_of({400'000});
    for (int i = 0; i < rounds(40); ++i) {
      dish.seed = static_cast<std::uint32_t>(i);
      serve(*group, dish, kRanks, rank);
    }
  });
}

TEST_CASE("reductions that are written past the caches give the right values") {
  constexpr int kRanks = 4;
  const LocalJob job(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto group = open_shm(job, rank, {.single_copy = SingleCopy::kNever, .arenas = false});
    REQUIRE(group != nullptr);
    Dish dish = dish_of({3, 600'001, 0, 800'000});
    for (const Collective kind : {Collective::kAllreduce, Collective::kReduce}) {
      for (const bool in_place : {false, true}) {
        for (const int absent : {-1, 1}) {
          dish.kind = kind;
          dish.root = 2;
          dish.in_place = in_place;
          dish.absent = absent;
          ++dish.seed;
          serve(*group, dish, kRanks, rank);
        }
      }
    }
  });
}

TEST_CASE("more than a thousand segments are one operation") {
  const LocalJob job(2);
  run_ranks(2, [&](int rank) {
    const auto group = open_shm(job, rank);
    REQUIRE(group != nullptr);
    serve(*group, dish_of(std::vector<std::size_t>(1500, 1)), 2, rank);
    serve(*group, dish_of(std::vector<std::size_t>(1500, 301)), 2, rank);
  });
}

/// Floats whose sum depends on the order, reduced in `pieces` operations.
std::vector<float> reduced_floats(Communicator& group, int rank, std::size_t pieces) {
  constexpr std::size_t kCount = 300'000;
  std::mt19937 random(static_cast<unsigned>(rank));
  std::vector<float> values(kCount);
  for (float& v : values) v = std::uniform_real_distribution<float>(-1, 1)(random);
  const std::size_t each = kCount / pieces;
  for (std::size_t p = 0; p < pieces; ++p) {
    auto* const at = reinterpret_cast<std::byte*>(values.data() + p * each);
    const Segment segment{.in = at, .out = at, .bytes = each * sizeof(float)};
    REQUIRE(group.run(allreduce_of({&segment, 1}, DType::kFloat32), kNoStream, AbortToken()).ok());
  }
  return values;
}

TEST_CASE("all ranks hold the same bits, however the values were cut") {
  constexpr int kRanks = 3;
  const LocalJob job(kRanks);
  std::vector<std::vector<float>> whole(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto group = open_shm(job, rank);
    REQUIRE(group != nullptr);
    std::vector<float> once = reduced_floats(*group, rank, 1);
    CHECK((once == reduced_floats(*group, rank, 100)));
    whole[static_cast<std::size_t>(rank)] = std::move(once);
  });
  CHECK((whole[0] == whole[1]));
  CHECK((whole[0] == whole[2]));
}

TEST_CASE("an abort ends an operation whose peers never come, and breaks the group") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1'000'000}}) {
    const LocalJob job(2);
    AbortToken call;
    run_ranks(2, [&](int rank) {
      const auto group = open_shm(job, rank);
      REQUIRE(group != nullptr);
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return call.abort(Status(Code::kRankFailure, "rank 1 died"));
      }
      Values values(count);
      const Segment segment{.in = reinterpret_cast<std::byte*>(values.data()),
                            .out = reinterpret_cast<std::byte*>(values.data()),
                            .bytes = count * sizeof(Value)};
      const Work work = allreduce_of({&segment, 1}, DType::kInt32);
      CHECK(group->run(work, kNoStream, call).code() == Code::kRankFailure);
      CHECK(group->run(work, kNoStream, AbortToken()).message() == "rank 1 died");
    });
  }
}

TEST_CASE("the abort of the group ends an operation too") {
  const LocalJob job(2);
  run_ranks(2, [&](int rank) {
    const auto group = open_shm(job, rank);
    REQUIRE(group != nullptr);
    if (rank == 1) return job.abort().abort(Status(Code::kAborted, "shutting down"));
    CHECK(group->run(Work(), kNoStream, AbortToken()).code() == Code::kAborted);
  });
}

TEST_CASE("what is supported does not depend on the rank") {
  const LocalJob job(1);
  const auto group = open_shm(job, 0);
  REQUIRE(group != nullptr);
  const auto supports = [&](Collective kind, ReduceOp op) {
    return group->traits().supports.has(kind, DType::kFloat32, op);
  };
  CHECK(group->traits().memory == DeviceKind::kCpu);
  CHECK(group->traits().native_first);
  CHECK(supports(Collective::kAllreduce, ReduceOp::kSum));
  CHECK(supports(Collective::kBarrier, ReduceOp::kSum));
  CHECK(supports(Collective::kBroadcast, ReduceOp::kBitXor));
  CHECK_FALSE(supports(Collective::kAllreduce, ReduceOp::kBitXor));
  CHECK_FALSE(supports(Collective::kJoin, ReduceOp::kSum));
}

}  // namespace
}  // namespace ronde::test
