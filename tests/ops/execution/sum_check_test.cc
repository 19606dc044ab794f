// Samples of allreduces that are computed once more: healthy ones pass, a wrong sum names its rank.
#include "ops/execution/sum_check.h"

#include <doctest/doctest.h>

#include <array>
#include <random>

#include "ops/execution/executor.h"
#include "ops/kernels/factory.h"
#include "tests/conformance/values.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

/// Allreduces of one tensor, of which each is drawn.
struct Sampling {
  std::string algorithm = {};
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kAverage;
  int sick = -1;              ///< Computes wrong sums.
  bool changes_late = false;  ///< It does not, and changes its own result.
  int joined = -1;
  std::uint64_t every = 1;
  double integers = 20;  ///< Their deviation from 0.
};

Bytes drawn_values(DType dtype, double integers, int rank, std::size_t count) {
  std::mt19937 draw(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<double> normal(0, is_floating(dtype) ? 1 : integers);
  std::vector<double> values(count);
  for (double& value : values) value = normal(draw);
  Bytes bytes(count * size_of(dtype));
  create_kernels()->cast(DType::kFloat64, values.data(), dtype, bytes.data(), count);
  return bytes;
}

/// Returns what the first works of each rank end with: an error, or that of the last one.
std::vector<Status> run_sampled(const Sampling& what, int ranks, std::size_t count, int works = 1) {
  std::vector<Status> told(static_cast<std::size_t>(ranks));
  LocalFixture fixture(what.algorithm);
  fixture.run(ranks, [&](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    auto plane = backend.open(group, exchange);
    REQUIRE(plane.ok());
    const auto witness = std::make_shared<SumWitness>(create_kernels());
    ExecutorOptions options;
    options.host.whole = std::move(plane).value();
    options.kernels = witness;
    options.algorithm = what.algorithm;
    options.rank = rank;
    options.size = ranks;
    options.check_sums = SumCheckOptions{.every = what.every, .witness = witness};
    for (int r = 0; r < ranks; ++r) options.check_sums->ranks.push_back(r + 10);
    const bool sick = rank == what.sick;
    const auto elements = [](const Work& work) {
      return OwnElements{work.segments[0].in, work.segments[0].out, work.segments[0].bytes};
    };
    options.on_work = [&](const Bundle&, const Work& work) {
      if (sick && !what.changes_late) witness->spoil(elements(work));
    };
    options.on_result = [&](const Bundle&, const Work& work, bool) {
      if (sick && !what.changes_late) CHECK(witness->heal(elements(work)));
      for (std::size_t at = 0; sick && what.changes_late && at < work.segments[0].bytes; ++at)
        work.segments[0].out[at] ^= std::byte{0x40};
    };
    auto executor = create_executor(std::move(options));
    REQUIRE(executor.ok());
    const Bytes in = drawn_values(what.dtype, what.integers, rank, count);
    Bytes out(in.size());
    Bundle bundle;
    bundle.kind = Collective::kAllreduce;
    bundle.dtype = what.dtype;
    bundle.op = what.op;
    BundleTensor tensor;
    tensor.shape = {static_cast<std::int64_t>(count)};
    tensor.begin = 1'000'000;
    if (rank != what.joined) {
      tensor.in = in.data();
      tensor.out = out.data();
    }
    bundle.tensors = {tensor};
    Status& mine = told[static_cast<std::size_t>(rank)];
    for (int i = 0; i < works && mine.ok(); ++i) mine = (*executor)->execute(bundle, *group.abort);
    CHECK(exchange.allgather("done").ok());
  });
  return told;
}

/// Refuses all work, and leaves the group whole.
class Refuses final : public Communicator {
 public:
  Refuses()
      : Communicator({.name = "refuses",
                      .supports = SupportTable::of([](auto...) { return true; }),
                      .native_first = true}) {}
  Status run(const Work&, DeviceStream, const AbortToken&) override {
    return {Code::kResourceExhausted, "no"};
  }
};

void check_all(const std::vector<Status>& told, std::string_view text) {
  for (const Status& one : told) {
    CHECK(one.code() == Code::kCorrupted);
    CHECK(one.message() == told[0].message());
    CHECK_MESSAGE(one.message().find(text) != std::string::npos, one.message());
  }
}

}  // namespace

TEST_CASE("sum check: healthy results pass, of every type, operator and algorithm") {
  for (const char* const algorithm : {"", "ring", "tree", "halving_doubling"}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16,
                              DType::kInt32, DType::kUint8, DType::kBool}) {
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kProduct}) {
        if (!is_defined(op, dtype)) continue;
        for (const std::size_t count : {std::size_t{1}, std::size_t{1009}}) {
          INFO(std::string(algorithm), " ", std::string(to_string(dtype)), " ",
               std::string(to_string(op)));
          for (const Status& one : run_sampled({algorithm, dtype, op}, 3, count)) {
            CHECK_MESSAGE(one.ok(), one.to_string());
          }
        }
      }
    }
  }
}

TEST_CASE("sum check: averages of integers pass whose sums need more bits") {
  for (const char* const algorithm :
       {"", "ring", "tree", "double_tree", "halving_doubling", "direct"}) {
    for (const DType dtype : {DType::kInt16, DType::kInt32, DType::kUint32}) {
      INFO(std::string(algorithm), " ", std::string(to_string(dtype)));
      const Sampling large{
          .algorithm = algorithm, .dtype = dtype, .integers = dtype == DType::kInt16 ? 2e4 : 2e9};
      for (const Status& one : run_sampled(large, 3, 200)) CHECK_MESSAGE(one.ok(), one.to_string());
    }
  }
}

TEST_CASE("sum check: the rank that computes wrong sums is named on all ranks") {
  for (const char* const algorithm : {"ring", "tree", "halving_doubling", "direct"}) {
    for (const DType dtype : {DType::kFloat32, DType::kInt16}) {
      INFO(std::string(algorithm), " ", std::string(to_string(dtype)));
      // Some algorithms let a rank compute a share of the elements alone.
      const auto told = run_sampled({algorithm, dtype, ReduceOp::kSum, 0}, 2, 512, 50);
      check_all(told, "rank 10 computed a wrong sum, among the elements 1000");
      check_all(told, " on rank 10");
    }
  }
}

TEST_CASE("sum check: a result that one rank has changed names that rank") {
  const auto told = run_sampled({.sick = 2, .changes_late = true}, 3, 100);
  check_all(told, "a sum is wrong, among the elements 1000000 to 1000099: element 1000000 is ");
  check_all(told, " on rank 12, the inputs of all ranks give ");
}

TEST_CASE("sum check: a rank that has joined puts in zeros") {
  for (const Status& one : run_sampled({.joined = 1}, 3, 1009)) CHECK(one.ok());
}

TEST_CASE("sum check: a work that fails leaves no mark on its memory") {
  const auto witness = std::make_shared<SumWitness>(create_kernels());
  std::vector<float> in(4, 1.0F), out(4);
  const OwnElements mine{reinterpret_cast<const std::byte*>(in.data()),
                         reinterpret_cast<const std::byte*>(out.data()), 4 * sizeof(float)};
  ExecutorOptions options;
  options.host.whole = std::make_unique<Refuses>();
  options.kernels = witness;
  options.size = 2;
  options.check_sums = SumCheckOptions{.every = 1, .witness = witness};
  bool ended = false;
  options.on_result = [&](const Bundle&, const Work&, bool ran) { ended = !ran; };
  auto executor = create_executor(std::move(options));
  REQUIRE(executor.ok());
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  bundle.tensors.emplace_back().shape = {4};
  bundle.tensors[0].in = reinterpret_cast<const std::byte*>(in.data());
  bundle.tensors[0].out = reinterpret_cast<std::byte*>(out.data());
  CHECK((*executor)->execute(bundle, AbortToken()).code() == Code::kResourceExhausted);
  CHECK(ended);
  witness->spoil(mine);
  witness->reduce({}, std::array<const void*, 1>{in.data()}, out.data(), 4);
  CHECK(witness->heal(mine));
  CHECK_FALSE(witness->forget(mine));
}

TEST_CASE("sum check: one of so many is drawn") {
  CHECK(run_sampled({.sick = 0, .changes_late = true, .every = 1'000'000}, 2, 100, 20)[0].ok());
  check_all(run_sampled({.sick = 0, .changes_late = true, .every = 10}, 2, 100, 200), "on rank 10");
}

}  // namespace ronde::test
