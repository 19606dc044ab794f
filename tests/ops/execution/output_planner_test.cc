#include "ops/execution/output_planner.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/kernels/factory.h"
#include "tests/conformance/rank.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

/// Gives three ranks the numbers of rank 1; `more` is added to those of rank 0.
class Echo final : public Communicator {
 public:
  Echo() : Communicator({.name = "echo"}) {}
  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    ++exchanges;
    const auto* mine = reinterpret_cast<const std::int64_t*>(work.segments[0].in);
    auto* all = reinterpret_cast<std::int64_t*>(work.segments[0].out);
    const std::size_t numbers = work.chunk_bytes[0] / sizeof(std::int64_t);
    for (std::size_t i = 0; i < 3 * numbers; ++i)
      all[i] = mine[i % numbers] + (i < numbers ? more : 0);
    return {};
  }
  int exchanges = 0;
  std::int64_t more = 0;
};

/// Rank 1 of three.
struct Fixture {
  Status plan() { return planner.plan(bundle, abort); }
  BundleTensor& add(const Shape& shape) {
    bundle.tensors.emplace_back();
    bundle.tensors.back().name = "w";
    bundle.tensors.back().in = memory.data();
    bundle.tensors.back().out = memory.data();
    bundle.tensors.back().shape = shape;
    return bundle.tensors.back();
  }

  Echo echo;
  NumberExchange exchange{echo, 3};
  OutputPlanner planner{exchange, 1, 3};
  AbortToken abort;
  Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32);
  std::vector<float> memory = std::vector<float>(64);
};

using Sizes = std::vector<std::size_t>;
Sizes sizes(std::span<const std::size_t> of) { return {of.begin(), of.end()}; }

/// Values whose sum depends on the order of addition.
Bytes uneven(DType dtype, int rank, std::size_t count) {
  Bytes bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const double x = std::sin(1.0 + rank * 37.0 + static_cast<double>(i) * 11.0);
    put(dtype, bytes, i, is_floating(dtype) ? x * std::pow(10.0, rank % 4) : std::trunc(x * 100));
  }
  return bytes;
}

Bytes reduced_at_once(const Bundle& bundle, int ranks, std::size_t count) {
  std::vector<Bytes> all;
  std::vector<const void*> inputs;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(uneven(bundle.dtype, rank, count));
  for (const Bytes& one : all) inputs.push_back(one.data());
  Bytes out(count * size_of(bundle.dtype));
  create_payload_reducer(create_kernels())
      ->reduce({bundle.dtype, bundle.op, bundle.prescale, bundle.postscale}, inputs, out.data(),
               count);
  return out;
}

}  // namespace

TEST_CASE("output planner: whole tensors need no exchange, and one work holds them all") {
  Fixture on;
  on.bundle.op = ReduceOp::kAverage;
  on.add({2, 3});
  on.add({});
  CHECK(on.plan().ok());
  REQUIRE(on.planner.works() == 1);
  const Work work = on.planner.work(on.bundle, 0);
  REQUIRE(work.segments.size() == 2);
  CHECK(work.segments[0].bytes == 24);
  CHECK(work.segments[1].bytes == 4);
  CHECK(work.bytes == 28);
  CHECK(work.reduction.op == ReduceOp::kSum);
  CHECK(on.echo.exchanges == 0);
}

TEST_CASE("output planner: only the root of a reduce writes") {
  Fixture on;
  on.bundle.kind = Collective::kReduce;
  on.add({2});
  CHECK(on.plan().ok());
  CHECK(on.planner.work(on.bundle, 0).segments[0].out == nullptr);
  on.bundle.root = 1;
  CHECK(on.plan().ok());
  CHECK(on.planner.work(on.bundle, 0).segments[0].out != nullptr);
}

TEST_CASE("output planner: rows are scattered evenly, the first ranks having one more") {
  Fixture on;
  on.bundle.kind = Collective::kReduceScatter;
  on.add({7, 2});
  CHECK(on.plan().ok());
  CHECK(sizes(on.planner.work(on.bundle, 0).chunk_bytes) == Sizes{24, 16, 16});
  on.bundle.tensors[0].shape = {};
  CHECK(on.plan().code() == Code::kInvalidArgument);
}

TEST_CASE("output planner: what is gathered may have uneven first extents") {
  Fixture on;
  on.echo.more = 2;
  on.bundle.kind = Collective::kAllgather;
  on.add({3, 2});
  CHECK(on.plan().ok());
  const Work work = on.planner.work(on.bundle, 0);
  CHECK(sizes(work.chunk_bytes) == Sizes{40, 24, 24});
  CHECK(work.bytes == 88);
  CHECK(on.echo.exchanges == 1);
}

TEST_CASE("output planner: an alltoall is one work for each tensor, or an error before any") {
  Fixture on;
  on.bundle.kind = Collective::kAlltoall;
  on.add({3});
  on.add({6});
  CHECK(on.plan().ok());
  REQUIRE(on.planner.works() == 2);
  const Work work = on.planner.work(on.bundle, 1);
  CHECK(sizes(work.send_bytes) == Sizes{8, 8, 8});
  CHECK(sizes(work.recv_bytes) == Sizes{8, 8, 8});
  CHECK(work.bytes == 3 * 6 * sizeof(float));
  on.bundle.tensors[1].shape = {7};
  CHECK(on.plan().code() == Code::kInvalidArgument);
}

TEST_CASE("output planner: without memory for an output the plan stands, and the error is kept") {
  Fixture on;
  const OutputAllocator none = [](std::size_t, const Shape&) -> Result<void*> {
    return Status(Code::kResourceExhausted, "no room");
  };
  BundleTensor& tensor = on.add({4});
  tensor.out = nullptr;
  tensor.allocate = &none;
  CHECK(on.plan().ok());
  CHECK(on.planner.work(on.bundle, 0).segments[0].out == nullptr);
  CHECK(on.planner.allocation().code() == Code::kResourceExhausted);
  tensor.allocate = nullptr;
  CHECK(on.plan().ok());
  CHECK(on.planner.allocation().ok());
}

TEST_CASE("PayloadReducer: every type and op has the bits of deterministic mode") {
  LocalFixture fixture("direct");
  constexpr std::size_t kCount = 13;
  on_ranks(fixture, {2, 3, 5, 8}, [&](const Rank& rank) {
    for (const DType dtype : all_dtypes()) {
      for (const ReduceOp op : all_ops()) {
        for (const double factor : {1.0, 0.75}) {
          if (!is_defined(op, dtype)) continue;
          Bundle bundle = bundle_of(Collective::kAllreduce, dtype, op);
          bundle.prescale = factor;
          bundle.postscale = factor;
          const Bytes moved =
              rank.run_one(bundle, uneven(dtype, rank.rank(), kCount), Place::kOut, kCount);
          rank.expect_no(compare_bytes(reduced_at_once(bundle, rank.size(), kCount), moved),
                         fmt::format("{} {} times {}", to_string(dtype), to_string(op), factor));
        }
      }
    }
  });
}

}  // namespace ronde::test
