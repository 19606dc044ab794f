// Conformance: bundles of several tensors, order, synchronisation, abort.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "core/base/clock.h"
#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

constexpr std::array<std::size_t, 6> kCounts{3, 0, 1009, 1, 20'011, 64};

// Several tensors of one bundle with inputs and outputs; each is `counts[i]` int32.
struct Tensors {
  std::deque<Bytes> in;
  std::deque<Bytes> out;
  Bundle bundle;

  void add(Bytes input, std::size_t out_bytes, Shape shape) {
    in.push_back(std::move(input));
    out.emplace_back(out_bytes, std::byte{0xcd});
    BundleTensor tensor;
    tensor.name = "fused";
    tensor.in = in.back().data();
    tensor.out = out.back().data();
    tensor.shape = std::move(shape);
    bundle.tensors.push_back(std::move(tensor));
  }
};

void fused_reductions(const Rank& rank, Collective kind, int root) {
  const ReduceOp op = ReduceOp::kSum;
  Tensors tensors;
  tensors.bundle = bundle_of(kind, DType::kInt32, op, root);
  for (const std::size_t count : kCounts) {
    const Shape shape = count == 1 ? Shape{} : Shape{static_cast<std::int64_t>(count)};
    tensors.add(operands(op, DType::kInt32, rank.rank(), count), count * 4, shape);
  }
  REQUIRE(rank.run(tensors.bundle).ok());
  if (kind == Collective::kReduce && rank.rank() != root) return;
  for (const Bytes& out : tensors.out) {
    rank.expect_no(compare(op, DType::kInt32, rank.size(), out), "fused reduction");
  }
}

void fused_broadcast(const Rank& rank, int root) {
  Tensors tensors;
  tensors.bundle = bundle_of(Collective::kBroadcast, DType::kUint8, ReduceOp::kSum, root);
  for (const std::size_t count : kCounts) {
    tensors.add(pattern(rank.rank() * 7 + static_cast<int>(count), count), count,
                {static_cast<std::int64_t>(count)});
  }
  REQUIRE(rank.run(tensors.bundle).ok());
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    const Bytes wanted = pattern(root * 7 + static_cast<int>(kCounts[i]), kCounts[i]);
    rank.expect_no(compare_bytes(tensors.out[i], wanted), "fused broadcast");
  }
}

// Every rank gives `count + rank` bytes to the i-th tensor.
void fused_gather(const Rank& rank, Collective kind, int root) {
  Tensors tensors;
  tensors.bundle = bundle_of(kind, DType::kUint8, ReduceOp::kSum, root);
  std::deque<Bytes> wanted;
  for (const std::size_t count : kCounts) {
    Bytes& all = wanted.emplace_back();
    for (int from = 0; from < rank.size(); ++from) {
      const Bytes part = pattern(from, count + static_cast<std::size_t>(from));
      all.insert(all.end(), part.begin(), part.end());
    }
    const std::size_t mine = count + static_cast<std::size_t>(rank.rank());
    tensors.add(pattern(rank.rank(), mine), all.size(), {static_cast<std::int64_t>(mine)});
  }
  REQUIRE(rank.run(tensors.bundle).ok());
  if (kind == Collective::kGather && rank.rank() != root) return;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    rank.expect_no(compare_bytes(tensors.out[i], wanted[i]), "fused gather");
  }
}

void fused_reduce_scatter(const Rank& rank) {
  const auto size = static_cast<std::size_t>(rank.size());
  const auto me = static_cast<std::size_t>(rank.rank());
  Tensors tensors;
  tensors.bundle = bundle_of(Collective::kReduceScatter, DType::kFloat32, ReduceOp::kSum);
  for (const std::size_t count : kCounts) {
    const std::size_t mine = count / size + (me < count % size ? 1 : 0);
    tensors.add(operands(ReduceOp::kSum, DType::kFloat32, rank.rank(), count), mine * 4,
                {static_cast<std::int64_t>(count)});
  }
  REQUIRE(rank.run(tensors.bundle).ok());
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    const std::size_t begin = me * (kCounts[i] / size) + std::min(me, kCounts[i] % size);
    rank.expect_no(compare(ReduceOp::kSum, DType::kFloat32, rank.size(), tensors.out[i], begin),
                   "fused reduce_scatter");
  }
}

void fused_scatter(const Rank& rank, int root) {
  const auto size = static_cast<std::size_t>(rank.size());
  Tensors tensors;
  tensors.bundle = bundle_of(Collective::kScatter, DType::kUint8, ReduceOp::kSum, root);
  for (const std::size_t count : kCounts) {
    tensors.add(pattern(rank.rank(), count * size), count, {static_cast<std::int64_t>(count)});
  }
  REQUIRE(rank.run(tensors.bundle).ok());
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    const Bytes whole = pattern(root, kCounts[i] * size);
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(
                                           kCounts[i] * static_cast<std::size_t>(rank.rank()));
    const Bytes wanted(begin, begin + static_cast<std::ptrdiff_t>(kCounts[i]));
    rank.expect_no(compare_bytes(tensors.out[i], wanted), "fused scatter");
  }
}

constexpr auto kUntilAbort = std::chrono::milliseconds(30);

// Takes part in an allreduce of `data` that cannot end well, twice.
void wait_in_vain(const Rank& rank, Bytes& data) {
  Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32);
  BundleTensor tensor;
  tensor.name = "late";
  tensor.in = tensor.out = data.data();
  tensor.shape = {static_cast<std::int64_t>(data.size() / sizeof(float))};
  bundle.tensors = {tensor};
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status status = rank.run(bundle);
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.message().find("rank 7 died") != std::string::npos);
  }
}

long nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now().time_since_epoch()).count();
}

}  // namespace

void conformance_fused(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    const int root = rank.size() - 1;
    fused_reductions(rank, Collective::kAllreduce, 0);
    fused_reductions(rank, Collective::kReduce, root);
    fused_broadcast(rank, root);
    fused_gather(rank, Collective::kAllgather, 0);
    fused_gather(rank, Collective::kGather, root);
    fused_reduce_scatter(rank);
    fused_scatter(rank, root);
  });
}

void conformance_barrier(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    const Bundle barrier = bundle_of(Collective::kBarrier, DType::kUint8);
    for (int late = 0; late < rank.size(); ++late) {
      if (rank.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const long came = nanoseconds();
      REQUIRE(rank.run(barrier).ok());
      const long left = nanoseconds();
      for (const std::string& other : rank.share(std::to_string(came))) {
        CHECK(std::stol(other) <= left);
      }
    }
  });
}

void conformance_sequence(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    std::mt19937 random(4711);  // NOLINT: the same on all ranks
    for (int turn = 0; turn < 150; ++turn) {
      const int root = static_cast<int>(random() % static_cast<unsigned>(rank.size()));
      const std::size_t count = random() % (turn % 10 == 0 ? 60'000 : 300);
      switch (random() % 5) {
        case 0: {
          const Bytes out =
              rank.run_one(bundle_of(Collective::kBroadcast, DType::kUint8, ReduceOp::kSum, root),
                           pattern(rank.rank() + turn, count), Place::kIn, count);
          rank.expect_no(compare_bytes(out, pattern(root + turn, count)), "sequence");
          break;
        }
        case 1:
          fused_gather(rank, Collective::kGather, root);
          break;
        case 2:
          REQUIRE(rank.run(bundle_of(Collective::kBarrier, DType::kUint8)).ok());
          break;
        default: {
          const Bytes out = rank.run_one(
              bundle_of(Collective::kAllreduce, DType::kFloat32),
              operands(ReduceOp::kSum, DType::kFloat32, rank.rank(), count), Place::kIn, count);
          rank.expect_no(compare(ReduceOp::kSum, DType::kFloat32, rank.size(), out), "sequence");
        }
      }
    }
  });
}

void conformance_abort(ConformanceFixture& fixture) {
  for (const int ranks : fixture.rank_counts()) {
    if (ranks == 1) continue;
    // They outlive the ranks: a device reads until its streams end what an abort left queued.
    std::vector<Bytes> tensors(static_cast<std::size_t>(ranks), Bytes(40'000));
    fixture.run(ranks, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
      const Rank rank(fixture, backend, group, exchange);
      (void)rank.share("open");  // an abort while a rank still opens its group is another matter
      std::thread watchman([&] {
        std::this_thread::sleep_for(kUntilAbort);
        rank.abort().abort(Status(Code::kRankFailure, "rank 7 died"));
      });
      if (rank.rank() == ranks - 1) {  // the one that never comes; it does not leave early either
        std::this_thread::sleep_for(3 * kUntilAbort);
      } else {
        wait_in_vain(rank, tensors[static_cast<std::size_t>(rank.rank())]);
      }
      watchman.join();
    });
  }
}

}  // namespace ronde::test
